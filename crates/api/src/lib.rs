//! The kinds a user writes, and the words Foreshard answers with.
//!
//! This crate holds data only: structs with their schema and admission rules, labels, condition types and
//! reasons. It has no client and no runtime, so everything that decides (`foreshard-plan`) can depend on it.

pub mod conditions;
pub mod directives;
pub mod labels;
pub mod valkey_cluster;

pub use valkey_cluster::{ValkeyCluster, ValkeyClusterSpec, ValkeyClusterStatus};

/// The API group of every kind of ours.
pub const GROUP: &str = "foreshard.io";
/// The field manager of every server-side apply.
pub const FIELD_MANAGER: &str = "foreshard";
/// The number of hash slots of a cluster.
pub const SLOTS: u16 = 16384;
/// The port clients and members use.
pub const PORT: u16 = 6379;
/// The port of the cluster bus: always the client port plus 10000.
pub const BUS_PORT: u16 = PORT + 10000;
