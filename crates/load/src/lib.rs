//! A load generator that remembers every acknowledged write and proves that none was lost.
//!
//! [`run`] offers load to a cluster or a single primary, reads every key back in the end and
//! returns a [`Report`]: throughput, latencies, errors by kind, the longest time in which a shard
//! acknowledged nothing, and the keys that hold less than what the store had acknowledged.
//!
//! ```no_run
//! # async fn example() -> Result<(), foreshard_load::Error> {
//! use foreshard_load::{CancellationToken, Config, Policy, Outcome, Target};
//!
//! let mut config = Config::new(Target::Cluster(vec!["127.0.0.1:7000".to_owned()]));
//! config.duration = Some(std::time::Duration::from_secs(30));
//! let report = foreshard_load::run(config, CancellationToken::new()).await?;
//! assert_eq!(report.outcome(Policy::default()), Outcome::Passed);
//! # Ok(())
//! # }
//! ```

mod client;
mod cluster;
mod config;
pub mod display;
mod errors;
mod gaps;
mod ledger;
mod ledger_file;
mod node;
mod operation;
mod report;
mod run;
mod slots;
mod stats;
mod summary;
mod topology;
mod value;
mod verify;
mod workers;

pub use config::{Access, ClientKind, Config, Password, Target};
pub use errors::OpError;
pub use report::{
    GapReport, Latency, LedgerReport, LossReason, LostKey, OfferedReport, Outcome, Policy, PreloadReport,
    ReadReport, Redirected, Report, Verdict, WriteReport,
};
pub use run::{Error, Moment, Progress, run, run_with_progress, verify_saved};
pub use tokio_util::sync::CancellationToken;
