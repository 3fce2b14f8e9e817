//! Every decision Foreshard makes, as pure functions of what was observed.
//!
//! No I/O, no runtime, no clock and no randomness: the crate's dependencies prove it. `now` is an argument.

pub mod action;
pub mod check;
pub mod cluster;
pub mod node;
pub mod slots;

pub use action::{Action, Step};
pub use node::{NodeId, NodeView, Peer};
pub use slots::SlotSet;
