//! Kubernetes plumbing that every kind shares: one way to apply objects, one way to write status, one way to tell
//! events, one lease.

pub mod apply;
pub mod contains;
mod error;
pub mod events;
pub mod lease;
pub mod quantity;
pub mod status;

pub use error::{CALL, Class, KubeError};
