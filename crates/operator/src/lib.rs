//! The operator: for each kind, observe what is there, let `foreshard-plan` decide, carry it out, report.

pub mod args;
mod cache;
mod context;
mod http;
mod metrics;
mod port_forward;
pub mod rbac;
pub mod run;
pub mod telemetry;
mod valkey_cluster;
