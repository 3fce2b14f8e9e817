//! Talking to store nodes: asking each for its own view, and carrying out the actions of a plan on it.
//!
//! There is no Kubernetes here. The one trait, [`NodeAdmin`], is what the rest of Foreshard sees.

pub mod dial;
mod error;
pub mod parse;
mod redis_admin;

use std::future::Future;
use std::net::IpAddr;

use foreshard_plan::{Action, NodeId, NodeView};

pub use error::StoreError;
pub use redis_admin::{RedisAdmin, Timeouts};

/// What Foreshard asks of store nodes and does to them.
pub trait NodeAdmin: Send + Sync + 'static {
    /// The node's own view.
    fn view(&self, at: IpAddr) -> impl Future<Output = Result<NodeView, StoreError>> + Send;

    /// Carries out an action on the node with this id. Nothing is done when another answers at the address, or when
    /// the node's state already is what the action would bring about.
    fn act(
        &self,
        at: IpAddr,
        id: &NodeId,
        action: &Action,
    ) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// Lets go of connections to addresses that are in use no more.
    fn keep_only(&self, in_use: &dyn Fn(IpAddr) -> bool);
}
