//! Reading what servers answer. Unknown fields and flags are passed over: newer engines add some.

use std::collections::HashMap;
use std::net::IpAddr;

use foreshard_plan::node::{Following, Health, OpenSlot};
use foreshard_plan::{NodeId, NodeView, Peer, SlotSet};

use crate::StoreError;

/// The fields of an `INFO` or `CLUSTER INFO` answer.
#[must_use]
pub fn fields(text: &str) -> HashMap<&str, &str> {
    text.lines()
        .filter_map(|line| line.trim_end().split_once(':'))
        .collect()
}

/// Puts one node's answers together.
pub fn node_view(nodes: &str, info: &str, cluster_info: &str, keys: u64) -> Result<NodeView, StoreError> {
    let peers = cluster_nodes(nodes)?;
    let myself = peers.iter().find(|peer| peer.myself);
    let Some(myself) = myself else {
        return Err(garbled("CLUSTER NODES", "no line is marked as the node itself"));
    };
    let (info, cluster) = (fields(info), fields(cluster_info));
    let number = |field: &str| info.get(field).and_then(|text| text.parse::<u64>().ok());
    let is = |field: &str, value: &str| info.get(field) == Some(&value);
    let follows = is("role", "slave").then(|| Following {
        link_up: is("master_link_status", "up"),
        syncing: is("master_sync_in_progress", "1"),
    });
    let offset = if follows.is_some() {
        number("slave_repl_offset")
    } else {
        number("master_repl_offset")
    };
    Ok(NodeView {
        id: myself.id.clone(),
        engine: engine(&info),
        follows,
        offset: offset.unwrap_or(0),
        keys,
        loading: is("loading", "1"),
        cluster_ok: cluster.get("cluster_state") == Some(&"ok"),
        epoch: cluster
            .get("cluster_current_epoch")
            .and_then(|text| text.parse().ok())
            .unwrap_or(0),
        peers,
    })
}

/// The engine and its own version; Valkey also reports the Redis version it is compatible with.
fn engine(info: &HashMap<&str, &str>) -> String {
    match (info.get("valkey_version"), info.get("redis_version")) {
        (Some(version), _) => format!("valkey {version}"),
        (None, Some(version)) => format!("redis {version}"),
        (None, None) => "unknown".to_owned(),
    }
}

/// The table of `CLUSTER NODES`.
pub fn cluster_nodes(text: &str) -> Result<Vec<Peer>, StoreError> {
    text.lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .map(peer)
        .collect()
}

/// One line: `<id> <ip:port@bus[,hostname]> <flags> <primary> <ping> <pong> <epoch> <link> <slot> …`.
fn peer(line: &str) -> Result<Peer, StoreError> {
    let bad = |what: &str| {
        garbled(
            "CLUSTER NODES",
            format!("{what} in \"{}\"", line.chars().take(120).collect::<String>()),
        )
    };
    let mut words = line.split(' ');
    let mut next = |what: &str| words.next().ok_or_else(|| bad(&format!("no {what}")));
    let id = NodeId::parse(next("id")?).ok_or_else(|| bad("no node id"))?;
    let address = next("address")?;
    let flags: Vec<&str> = next("flags")?.split(',').collect();
    let primary = next("primary")?;
    let (_ping, _pong) = (next("ping")?, next("pong")?);
    let epoch = next("epoch")?.parse().map_err(|_| bad("no epoch"))?;
    let _link = next("link")?;
    let mut slots = Vec::new();
    let mut open = Vec::new();
    for word in words {
        match word.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            Some(moving) => open.extend(open_slot(moving)),
            None => slots.push(word),
        }
    }
    let has = |flag: &str| flags.contains(&flag);
    Ok(Peer {
        id,
        ip: if has("noaddr") { None } else { ip(address) },
        name: name(address),
        myself: has("myself"),
        primary: NodeId::parse(primary),
        health: match (has("fail"), has("fail?")) {
            (true, _) => Health::Failed,
            (false, true) => Health::Suspected,
            (false, false) => Health::Fine,
        },
        handshake: has("handshake"),
        epoch,
        slots: slots
            .join(" ")
            .parse::<SlotSet>()
            .map_err(|error| bad(&error.to_string()))?,
        open,
    })
}

/// The address part of `10.0.0.7:6379@16379,name`; `None` when there is none.
fn ip(address: &str) -> Option<IpAddr> {
    let address = address.split([',', '@']).next()?;
    let (ip, _port) = address.rsplit_once(':')?;
    ip.trim_matches(['[', ']']).parse().ok()
}

/// The host name in `10.0.0.7:6379@16379,name,shard-id=…`; what has an `=` in it is something else.
fn name(address: &str) -> Option<String> {
    let name = address.split(',').nth(1)?;
    (!name.is_empty() && !name.contains('=')).then(|| name.to_owned())
}

/// `93-<-id` for a slot that comes in, `93->-id` for one that goes out.
fn open_slot(text: &str) -> Option<OpenSlot> {
    let (slot, importing, other) = match text.split_once("-<-") {
        Some((slot, other)) => (slot, true, other),
        None => text.split_once("->-").map(|(slot, other)| (slot, false, other))?,
    };
    Some(OpenSlot {
        slot: slot.parse().ok()?,
        other: NodeId::parse(other)?,
        importing,
    })
}

fn garbled(what: &'static str, detail: impl Into<String>) -> StoreError {
    StoreError::Garbled {
        what,
        detail: detail.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const NODES: &str = "\
07c37dfeb235213a872192d90877d0cd55635b91 127.0.0.1:30004@31004,hostname4,shard-id=69bc slave,fail? e7d1eecce10fd6bb5eb35b9f99a514335d9ba9ca 0 1426238317239 4 connected
e7d1eecce10fd6bb5eb35b9f99a514335d9ba9ca :0@0 myself,master,noaddr - 0 0 1 connected 0-5460 5500 [5461->-292f8b365bb7edb5e285caf0b7e6ddc7265d2f4f]
292f8b365bb7edb5e285caf0b7e6ddc7265d2f4f [fd00::7]:6379@16379 master,nofailover,novelty - 0 1426238318243 3 disconnected 10923-16383 [5461-<-e7d1eecce10fd6bb5eb35b9f99a514335d9ba9ca]
";

    #[test]
    fn a_table_is_read_with_all_its_oddities() {
        let peers = cluster_nodes(NODES).unwrap();
        assert_eq!(peers.len(), 3);
        assert_eq!(peers[0].primary.as_ref().unwrap().short(), "e7d1eecc");
        assert_eq!(peers[0].health, Health::Suspected);
        assert_eq!(peers[0].name.as_deref(), Some("hostname4"));
        assert_eq!(peers[2].name, None);
        assert_eq!(peers[0].ip, Some("127.0.0.1".parse().unwrap()));
        assert!(peers[1].myself && peers[1].ip.is_none());
        assert_eq!(peers[1].slots.to_string(), "0-5460 5500");
        assert!(!peers[1].open[0].importing && peers[1].open[0].slot == 5461);
        assert_eq!(peers[2].ip, Some("fd00::7".parse().unwrap()));
        assert!(peers[2].open[0].importing);
    }

    #[test]
    fn a_view_is_put_together() {
        let info = "# Server\r\nredis_version:7.2.4\r\nvalkey_version:9.1.2\r\n# Replication\r\nrole:slave\r\nmaster_link_status:up\r\nmaster_sync_in_progress:0\r\nslave_repl_offset:42\r\nmaster_repl_offset:41\r\nloading:0\r\n";
        let view = node_view(NODES, info, "cluster_state:ok\r\ncluster_current_epoch:6\r\n", 7).unwrap();
        assert_eq!(
            (view.engine.as_str(), view.offset, view.keys, view.epoch),
            ("valkey 9.1.2", 42, 7, 6)
        );
        assert!(view.cluster_ok && view.in_sync());
    }

    #[test]
    fn nonsense_is_an_error_that_shows_the_line() {
        let error = cluster_nodes("hello world").unwrap_err();
        assert!(error.to_string().contains("hello world"), "{error}");
        let nobody = NODES.replace("myself,", "");
        assert!(node_view(&nobody, "", "", 0).is_err());
    }

    proptest! {
        #[test]
        fn no_answer_makes_the_parsers_panic(text in "\\PC*", cut in 0usize..600, noise in any::<u8>()) {
            let _ = cluster_nodes(&text);
            let _ = node_view(&text, &text, &text, 0);
            let mut bytes = NODES.as_bytes().to_vec();
            bytes.truncate(cut);
            bytes.push(noise);
            let _ = cluster_nodes(&String::from_utf8_lossy(&bytes));
        }
    }
}
