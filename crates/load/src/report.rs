//! The report: everything a run found, in a form that tests and people can rely on.
//!
//! The field names of the JSON document are these, in camel case, and do not change meaning.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The result of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// `cluster` or `primary`.
    pub mode: String,
    /// Which client made the load: `direct` (the tool's own) or `library` (the `redis` crate's
    /// cluster client with its retries).
    pub client: String,
    /// What key names begin with.
    pub prefix: String,
    /// When the load began, in milliseconds since 1970, to find a gap in other logs.
    pub started_at_unix_ms: u64,
    /// For how long load was offered, in seconds; preloading and verification are not in it.
    pub duration_seconds: f64,
    /// Keys written before the load began; none without `--preload`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preload: Option<PreloadReport>,
    /// What was meant to be sent.
    pub offered: OfferedReport,
    /// The writes of the load.
    pub writes: WriteReport,
    /// The reads of the load.
    pub reads: ReadReport,
    /// From sending a write to its acknowledgement, WAIT included.
    pub latency_ms: Latency,
    /// From sending a read to its answer; none without reads.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_latency_ms: Option<Latency>,
    /// Redirects that were followed and cost the application nothing but time. With the client
    /// `library` they are always 0, because it does not tell.
    pub redirects: Redirected,
    /// Errors that the application would have seen, by kind.
    pub errors: BTreeMap<String, u64>,
    /// For each shard the longest time without an acknowledged write while load was offered.
    pub gaps: Vec<GapReport>,
    /// The longest of these.
    pub longest_gap_ms: f64,
    /// Whether slots moved from one shard to another during the run. Then `gaps` names not only
    /// shards, as they are in the end, but also sixteenths of the slots, which do not move.
    pub slots_moved: bool,
    /// Seconds with less than half of the offered writes; none at full speed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seconds_below_half_rate: Option<u64>,
    /// What the verification found.
    pub ledger: LedgerReport,
    /// The judgement.
    pub verdict: Verdict,
}

/// Keys written before the load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PreloadReport {
    /// How many were acknowledged.
    pub keys: u64,
    /// How long that took.
    pub seconds: f64,
    /// Errors on the way; the keys were tried again.
    pub errors: u64,
}

/// What was meant to be sent.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OfferedReport {
    /// Writes per second; 0 for as fast as possible.
    pub per_second: f64,
    /// Operations given up because every worker they belong to was still waiting for an answer.
    pub missed: u64,
}

/// The writes of a load.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WriteReport {
    /// How many were sent.
    pub attempted: u64,
    /// How many the store acknowledged.
    pub acknowledged: u64,
    /// Acknowledged writes per second.
    pub per_second: f64,
}

/// The reads of a load.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReadReport {
    /// How many were sent.
    pub attempted: u64,
    /// How many were answered.
    pub acknowledged: u64,
    /// Answered reads per second.
    pub per_second: f64,
    /// Answers older than what had been acknowledged before the read was sent.
    pub stale: u64,
}

/// Latencies in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Latency {
    /// Half of the operations were faster.
    pub p50: f64,
    /// 90 % were faster.
    pub p90: f64,
    /// 99 % were faster.
    pub p99: f64,
    /// 99.9 % were faster.
    pub p999: f64,
    /// The slowest.
    pub max: f64,
}

/// Redirects that were followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Redirected {
    /// MOVED.
    pub moved: u64,
    /// ASK.
    pub ask: u64,
}

/// The longest gap of a shard.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GapReport {
    /// The shard's primary at the end of the run, or `slots` for a range of slots.
    pub shard: String,
    /// Its slots.
    pub slots: String,
    /// How long it acknowledged nothing.
    pub ms: f64,
    /// When that began, in seconds from the start of the load.
    pub at_seconds: f64,
    /// It had not ended when the load stopped.
    pub open: bool,
    /// Gaps shorter than this come from the pacing of the load and mean nothing.
    pub resolution_ms: f64,
}

/// What reading everything back has found.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LedgerReport {
    /// Keys with at least one acknowledged write.
    pub keys: u64,
    /// Acknowledged writes, those of the preload included.
    pub acknowledged: u64,
    /// Those that the asked number of replicas confirmed.
    pub replicated: u64,
    /// Keys that hold less than what was acknowledged.
    pub lost: u64,
    /// Those among them that hold less than what replicas had confirmed.
    pub lost_replicated: u64,
    /// Keys whose value is damaged.
    pub corrupt: u64,
    /// Keys that could not be read, so nothing is known about them.
    pub unreadable: u64,
    /// The first lost or damaged keys.
    pub samples: Vec<LostKey>,
}

/// A lost or damaged key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LostKey {
    /// Its name.
    pub key: String,
    /// Its slot.
    pub slot: u16,
    /// The primary that owned the slot when the report was made.
    pub shard: Option<String>,
    /// What was found in its place.
    pub reason: LossReason,
    /// The version that had been acknowledged.
    pub acknowledged: u32,
    /// The version that is there.
    pub found: Option<u32>,
    /// Replicas had confirmed the lost write.
    pub replicated: bool,
}

/// What was found in place of an acknowledged write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum LossReason {
    /// No such key.
    Missing,
    /// An earlier version.
    Older,
    /// A value of another run: what an earlier one left behind has come back, or two loads use the
    /// same prefix at the same time.
    Foreign,
    /// A damaged value.
    Corrupt,
}

/// The judgement on a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum Verdict {
    /// Everything acknowledged is there.
    Verified,
    /// Something acknowledged is lost or damaged.
    Lost,
    /// Nothing is known to be lost, but some keys could not be read.
    Unproven,
    /// Verification was switched off.
    Skipped,
}

/// What is good enough.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Policy {
    /// Accept the loss of writes that no replica had confirmed.
    pub allow_unreplicated_loss: bool,
    /// More errors than this are a failure; none for any number.
    pub max_errors: Option<u64>,
}

/// Whether a run passed, as an exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Outcome {
    /// All is well.
    Passed = 0,
    /// Acknowledged writes are lost or damaged.
    Lost = 1,
    /// More errors than allowed.
    TooManyErrors = 3,
    /// Keys could not be read, so it is not proven that nothing is lost.
    Unproven = 4,
}

impl LedgerReport {
    /// The judgement that follows from the numbers.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        if self.lost + self.corrupt > 0 {
            Verdict::Lost
        } else if self.unreadable > 0 {
            Verdict::Unproven
        } else {
            Verdict::Verified
        }
    }

    /// Whether the findings are good enough.
    #[must_use]
    pub fn outcome(&self, policy: Policy) -> Outcome {
        let lost = if policy.allow_unreplicated_loss {
            self.lost_replicated
        } else {
            self.lost
        };
        if lost + self.corrupt > 0 {
            Outcome::Lost
        } else if self.unreadable > 0 {
            Outcome::Unproven
        } else {
            Outcome::Passed
        }
    }
}

impl Report {
    /// All errors together.
    #[must_use]
    pub fn errors_total(&self) -> u64 {
        self.errors.values().sum()
    }

    /// Whether the run is good enough.
    #[must_use]
    pub fn outcome(&self, policy: Policy) -> Outcome {
        match self.ledger.outcome(policy) {
            Outcome::Passed if policy.max_errors.is_some_and(|most| self.errors_total() > most) => {
                Outcome::TooManyErrors
            }
            outcome => outcome,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ledger(lost: u64, lost_replicated: u64, corrupt: u64, unreadable: u64) -> LedgerReport {
        LedgerReport {
            lost,
            lost_replicated,
            corrupt,
            unreadable,
            ..LedgerReport::default()
        }
    }

    #[test]
    fn a_loss_outweighs_what_could_not_be_read() {
        assert_eq!(ledger(0, 0, 0, 0).verdict(), Verdict::Verified);
        assert_eq!(ledger(0, 0, 0, 1).verdict(), Verdict::Unproven);
        assert_eq!(ledger(1, 0, 0, 1).verdict(), Verdict::Lost);
        assert_eq!(ledger(0, 0, 1, 0).verdict(), Verdict::Lost);
    }

    #[test]
    fn only_unreplicated_losses_can_be_allowed() {
        let lenient = Policy {
            allow_unreplicated_loss: true,
            ..Policy::default()
        };
        assert_eq!(ledger(3, 0, 0, 0).outcome(Policy::default()), Outcome::Lost);
        assert_eq!(ledger(3, 0, 0, 0).outcome(lenient), Outcome::Passed);
        assert_eq!(ledger(3, 1, 0, 0).outcome(lenient), Outcome::Lost);
        assert_eq!(ledger(0, 0, 1, 0).outcome(lenient), Outcome::Lost);
        assert_eq!(ledger(3, 0, 0, 2).outcome(lenient), Outcome::Unproven);
    }
}
