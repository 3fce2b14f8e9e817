//! What one store node says of itself and of the others.

use std::fmt;
use std::net::IpAddr;

use crate::slots::SlotSet;

/// A node's identity in its cluster: forty hexadecimal digits that the node chose for itself.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(String);

impl NodeId {
    /// Takes a node id as the server wrote it; `None` when it is not one.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let valid = text.len() == 40 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        valid.then(|| Self(text.to_owned()))
    }

    /// The forty digits.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The first eight digits: enough to tell nodes apart in a sentence.
    #[must_use]
    pub fn short(&self) -> &str {
        self.0.get(..8).unwrap_or(&self.0)
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.short())
    }
}

/// A node's own view: what it is, and what it believes of its peers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeView {
    /// Its id.
    pub id: NodeId,
    /// The engine, such as `valkey 9.1.2`.
    pub engine: String,
    /// Whether it follows another node, and how well.
    pub follows: Option<Following>,
    /// Its replication offset.
    pub offset: u64,
    /// How many keys it holds.
    pub keys: u64,
    /// Whether it is still reading its data set from disk.
    pub loading: bool,
    /// Whether it believes the cluster to be able to serve.
    pub cluster_ok: bool,
    /// The cluster's epoch as it knows it.
    pub epoch: u64,
    /// Every node it knows, itself included.
    pub peers: Vec<Peer>,
}

/// How a replica follows its primary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Following {
    /// Whether the link is up.
    pub link_up: bool,
    /// Whether the first copy is still being received.
    pub syncing: bool,
}

/// One line of a node's table of nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// The peer.
    pub id: NodeId,
    /// Where the node believes it to be; `None` when it has lost the address.
    pub ip: Option<IpAddr>,
    /// The host name it announces.
    pub name: Option<String>,
    /// Whether this line is the node itself.
    pub myself: bool,
    /// Whom the peer follows; `None` for a primary.
    pub primary: Option<NodeId>,
    /// What the node believes of the peer's health.
    pub health: Health,
    /// Whether the two are still being introduced.
    pub handshake: bool,
    /// The epoch of the peer's claim to its slots.
    pub epoch: u64,
    /// The slots it owns.
    pub slots: SlotSet,
    /// Slots that are being moved to or from it, as the node itself reports them.
    pub open: Vec<OpenSlot>,
}

/// A node's belief about a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Health {
    /// It answers.
    Fine,
    /// This node cannot reach it.
    Suspected,
    /// A majority could not reach it.
    Failed,
}

/// A slot in the middle of a classic migration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenSlot {
    /// The slot.
    pub slot: u16,
    /// The other side.
    pub other: NodeId,
    /// Whether the slot comes in (from `other`) or goes out (to it).
    pub importing: bool,
}

impl NodeView {
    /// The line about the node itself.
    #[must_use]
    pub fn own_line(&self) -> Option<&Peer> {
        self.peers.iter().find(|peer| peer.myself)
    }

    /// The slots the node says it owns.
    #[must_use]
    pub fn own_slots(&self) -> SlotSet {
        self.own_line().map(|peer| peer.slots.clone()).unwrap_or_default()
    }

    /// Whom it follows, by its own table.
    #[must_use]
    pub fn primary(&self) -> Option<&NodeId> {
        self.own_line().and_then(|peer| peer.primary.as_ref())
    }

    /// Whether it calls itself a primary.
    #[must_use]
    pub fn is_primary(&self) -> bool {
        self.primary().is_none()
    }

    /// Whether it has never been part of anything: no slots, no keys, no acquaintances, nobody to follow.
    #[must_use]
    pub fn is_blank(&self) -> bool {
        self.keys == 0
            && self.is_primary()
            && self.own_slots().is_empty()
            && self.peers.iter().all(|peer| peer.myself || peer.handshake)
    }

    /// Whether it follows its primary closely enough to take over.
    #[must_use]
    pub fn in_sync(&self) -> bool {
        self.follows
            .as_ref()
            .is_some_and(|following| following.link_up && !following.syncing)
    }
}
