//! What can be done to a store node. A plan is made of these; `foreshard-store` carries them out.

use std::fmt;
use std::net::IpAddr;

use crate::node::NodeId;
use crate::slots::SlotSet;

/// One command to one node.
///
/// Each is idempotent, and each re-checks on the node that it still makes sense: the world may have moved since it
/// was planned.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Action {
    /// Give a blank node its own epoch, so that primaries need not argue about equal ones later.
    SetConfigEpoch(u64),
    /// Introduce the node to another.
    Meet {
        /// Where the other is.
        ip: IpAddr,
        /// Who must be there: an address may have passed on to a node of another cluster.
        id: NodeId,
    },
    /// Give slots that nobody owns to the node.
    AddSlots(SlotSet),
    /// Make the node follow a primary.
    Replicate(NodeId),
    /// Let the node, a replica, ask the other primaries for their votes at once: its primary is proven dead.
    FailoverForce,
    /// Strike a dead node off the node's table.
    Forget(NodeId),
}

/// An action, where it goes and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The member's pod, for people.
    pub pod: String,
    /// Its address.
    pub ip: IpAddr,
    /// Who must be there. Nothing is done when somebody else answers.
    pub id: NodeId,
    /// What to do.
    pub action: Action,
    /// Why, in a few words.
    pub reason: String,
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SetConfigEpoch(epoch) => write!(f, "set its epoch to {epoch}"),
            Self::Meet { ip, .. } => write!(f, "introduce it to {ip}"),
            Self::AddSlots(slots) => write!(f, "give it slots {slots}"),
            Self::Replicate(primary) => write!(f, "make it follow {}", primary.short()),
            Self::FailoverForce => write!(f, "promote it"),
            Self::Forget(id) => write!(f, "forget {}", id.short()),
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} ({})", self.pod, self.action, self.reason)
    }
}
