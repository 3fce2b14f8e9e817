//! Who owns which slots, as a node tells it in CLUSTER SLOTS.

use redis::Value;

use crate::gaps::{BUCKETS, bucket_of};
use crate::slots::SLOTS;

/// One primary and its slots.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shard {
    /// The primary's address, `host:port`.
    pub primary: String,
    /// Its slots, as inclusive ranges in rising order.
    pub ranges: Vec<(u16, u16)>,
}

impl Shard {
    /// The slots in short form, `0-5460,10000`.
    #[must_use]
    pub fn slots(&self) -> String {
        let ranges = self.ranges.iter().map(|(first, last)| {
            if first == last {
                first.to_string()
            } else {
                format!("{first}-{last}")
            }
        });
        ranges.collect::<Vec<_>>().join(",")
    }

    /// How many slots it has.
    #[must_use]
    pub fn slot_count(&self) -> u32 {
        self.ranges
            .iter()
            .map(|(first, last)| u32::from(last.saturating_sub(*first)) + 1)
            .sum()
    }
}

/// The slot map of a cluster at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Topology {
    /// The shards, by their lowest slot.
    pub shards: Vec<Shard>,
}

impl Topology {
    /// One shard with everything: what a single primary is.
    #[must_use]
    pub fn single(primary: &str) -> Self {
        Self {
            shards: vec![Shard {
                primary: primary.to_owned(),
                ranges: vec![(0, SLOTS - 1)],
            }],
        }
    }

    /// Reads an answer to CLUSTER SLOTS. A node that does not know its own name leaves the host
    /// empty: then it is the host that was asked.
    #[must_use]
    pub fn parse(answer: &Value, asked_host: &str) -> Option<Self> {
        let Value::Array(entries) = answer else {
            return None;
        };
        let mut shards: Vec<Shard> = Vec::new();
        for entry in entries {
            let Value::Array(fields) = entry else { return None };
            let first = number(fields.first()?)?;
            let last = number(fields.get(1)?)?;
            let Value::Array(primary) = fields.get(2)? else {
                return None;
            };
            let port = number(primary.get(1)?)?;
            let host = text(primary.first()?)
                .filter(|host| !host.is_empty())
                .unwrap_or(asked_host);
            let primary = address(host, port);
            match shards.iter_mut().find(|shard| shard.primary == primary) {
                Some(shard) => shard.ranges.push((first, last)),
                None => shards.push(Shard {
                    primary,
                    ranges: vec![(first, last)],
                }),
            }
        }
        for shard in &mut shards {
            shard.ranges.sort_unstable();
        }
        shards.sort_by(|a, b| a.ranges.cmp(&b.ranges));
        (!shards.is_empty()).then_some(Self { shards })
    }

    /// For each slot the number of its shard, `u16::MAX` for none.
    #[must_use]
    pub fn owners(&self) -> Vec<u16> {
        let mut owners = vec![u16::MAX; usize::from(SLOTS)];
        for (number, shard) in (0..).zip(&self.shards) {
            for (first, last) in &shard.ranges {
                if let Some(slots) = owners.get_mut(usize::from(*first)..=usize::from(*last)) {
                    slots.fill(number);
                }
            }
        }
        owners
    }

    /// The shard of a slot.
    #[must_use]
    pub fn shard_of(&self, slot: u16) -> Option<&Shard> {
        let owns = |shard: &&Shard| {
            shard
                .ranges
                .iter()
                .any(|(first, last)| (*first..=*last).contains(&slot))
        };
        self.shards.iter().find(owns)
    }

    /// For each shard the slot buckets to watch: those it owns alone, or, if its slots are too
    /// scattered for that, those it has a part of.
    #[must_use]
    pub fn buckets(&self) -> Vec<Vec<usize>> {
        let mut parts: Vec<Vec<u16>> = vec![Vec::new(); BUCKETS];
        for (slot, owner) in (0..SLOTS).zip(self.owners()) {
            if let Some(part) = parts
                .get_mut(bucket_of(slot))
                .filter(|part| !part.contains(&owner))
            {
                part.push(owner);
            }
        }
        let with = |wanted: &dyn Fn(&[u16]) -> bool| -> Vec<usize> {
            parts
                .iter()
                .enumerate()
                .filter(|(_, part)| wanted(part))
                .map(|(bucket, _)| bucket)
                .collect()
        };
        (0..)
            .zip(&self.shards)
            .map(|(number, _)| {
                let alone = with(&|part| part == [number]);
                if alone.is_empty() {
                    with(&|part| part.contains(&number))
                } else {
                    alone
                }
            })
            .collect()
    }

    /// Whether the slots are divided in the same way; which node is primary does not matter.
    #[must_use]
    pub fn same_division(&self, other: &Self) -> bool {
        let ranges = |topology: &Self| -> Vec<_> {
            topology.shards.iter().map(|shard| shard.ranges.clone()).collect()
        };
        ranges(self) == ranges(other)
    }
}

/// `host:port`, with brackets round an IPv6 address.
#[must_use]
pub fn address(host: &str, port: u16) -> String {
    if host.contains(':') {
        format!("[{host}]:{port}")
    } else {
        format!("{host}:{port}")
    }
}

/// The parts of `host:port`.
#[must_use]
pub fn split_address(address: &str) -> Option<(&str, u16)> {
    let (host, port) = address.rsplit_once(':')?;
    let host = host
        .strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'))
        .unwrap_or(host);
    Some((host, port.parse().ok()?))
}

fn number(value: &Value) -> Option<u16> {
    if let Value::Int(number) = value {
        u16::try_from(*number).ok()
    } else {
        None
    }
}

fn text(value: &Value) -> Option<&str> {
    match value {
        Value::BulkString(bytes) => std::str::from_utf8(bytes).ok(),
        Value::SimpleString(text) => Some(text),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(first: i64, last: i64, host: &str, port: i64) -> Value {
        let node = Value::Array(vec![
            Value::BulkString(host.as_bytes().to_vec()),
            Value::Int(port),
            Value::BulkString(b"id".to_vec()),
            Value::Array(vec![]),
        ]);
        Value::Array(vec![Value::Int(first), Value::Int(last), node])
    }

    fn parse(entries: Vec<Value>) -> Topology {
        Topology::parse(&Value::Array(entries), "asked").unwrap()
    }

    #[test]
    fn ranges_of_one_primary_become_one_shard() {
        let topology = parse(vec![
            entry(8192, 16000, "b", 2),
            entry(0, 8190, "", 1),
            entry(16001, 16383, "", 1),
            entry(8191, 8191, "::1", 3),
        ]);
        let seen: Vec<_> = topology
            .shards
            .iter()
            .map(|s| (s.primary.clone(), s.slots(), s.slot_count()))
            .collect();
        assert_eq!(
            seen,
            [
                ("asked:1".into(), "0-8190,16001-16383".into(), 8574),
                ("[::1]:3".into(), "8191".into(), 1),
                ("b:2".into(), "8192-16000".into(), 7809),
            ]
        );
        assert_eq!(topology.shard_of(8191).unwrap().primary, "[::1]:3");
        assert_eq!(split_address("[::1]:3"), Some(("::1", 3)));
    }

    #[test]
    fn nothing_is_made_of_an_empty_map() {
        assert_eq!(Topology::parse(&Value::Array(vec![]), "asked"), None);
        assert_eq!(Topology::parse(&Value::Nil, "asked"), None);
    }

    #[test]
    fn a_shard_is_watched_in_the_buckets_it_owns_alone() {
        let topology = parse(vec![entry(0, 5460, "a", 1), entry(5461, 16383, "b", 1)]);
        let buckets = topology.buckets();
        assert_eq!(buckets[0], (0..21).collect::<Vec<_>>());
        assert_eq!(buckets[1], (22..64).collect::<Vec<_>>());
    }

    #[test]
    fn a_scattered_shard_is_still_watched() {
        let topology = parse(vec![entry(0, 99, "a", 1), entry(100, 16383, "b", 1)]);
        assert_eq!(topology.buckets()[0], [0]);
    }

    #[test]
    fn a_failover_does_not_change_the_division() {
        let before = parse(vec![entry(0, 8191, "a", 1), entry(8192, 16383, "b", 1)]);
        let after = parse(vec![entry(0, 8191, "c", 1), entry(8192, 16383, "b", 1)]);
        let moved = parse(vec![entry(0, 8000, "a", 1), entry(8001, 16383, "b", 1)]);
        assert!(before.same_division(&after));
        assert!(!before.same_division(&moved));
    }
}
