//! Condition types and reasons. They are API: a reason, once published, keeps its meaning.

/// Every slot is served, every member is there and in sync. `UpToDate` does not count: an earlier template serves too.
pub const READY: &str = "Ready";
/// Foreshard is changing something, or waiting for something it asked for.
pub const PROGRESSING: &str = "Progressing";
/// Something is wrong that does not mend itself within the normal course of work.
pub const DEGRADED: &str = "Degraded";
/// All 16384 slots are owned by a reachable primary that every primary agrees on.
pub const SLOTS_COVERED: &str = "SlotsCovered";
/// Every replica follows its shard's primary with its link up.
pub const REPLICAS_IN_SYNC: &str = "ReplicasInSync";
/// All members know each other.
pub const FORMED: &str = "Formed";
/// Every pod runs what the spec asks for.
pub const UP_TO_DATE: &str = "UpToDate";

/// Why a condition has its status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// Nothing is left to do.
    AsAsked,
    /// The cluster is being built for the first time.
    Forming,
    /// Pods are missing, starting or not reachable yet.
    WaitingForPods,
    /// Members do not all know each other yet.
    WaitingForGossip,
    /// A replica has not caught up with its primary.
    WaitingForSync,
    /// A slot has no reachable owner.
    SlotsUncovered,
    /// A pod cannot start; the message holds the kubelet's or the scheduler's reason.
    PodFailing,
    /// A member that was reachable does not answer.
    MemberUnreachable,
    /// A member holds keys but owns no slots. It is left alone, so that nothing is thrown away.
    StrayKeys,
    /// The spec cannot be acted upon; the message names the field.
    InvalidSpec,
    /// The object cannot be read as its kind; the message names the place.
    Undecodable,
    /// The planner's wish would break an invariant. Nothing was done.
    PlanRefused,
    /// An object with a name Foreshard needs belongs to somebody else.
    NameTaken,
    /// Pods still run an earlier revision of the pod template.
    OldTemplate,
    /// Kubernetes or a store node refused or failed a step; it is tried again.
    StepFailed,
}

impl Reason {
    /// The CamelCase word in a condition's `reason`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::AsAsked => "AsAsked",
            Self::Forming => "Forming",
            Self::WaitingForPods => "WaitingForPods",
            Self::WaitingForGossip => "WaitingForGossip",
            Self::WaitingForSync => "WaitingForSync",
            Self::SlotsUncovered => "SlotsUncovered",
            Self::PodFailing => "PodFailing",
            Self::MemberUnreachable => "MemberUnreachable",
            Self::StrayKeys => "StrayKeys",
            Self::InvalidSpec => "InvalidSpec",
            Self::Undecodable => "Undecodable",
            Self::PlanRefused => "PlanRefused",
            Self::NameTaken => "NameTaken",
            Self::OldTemplate => "OldTemplate",
            Self::StepFailed => "StepFailed",
        }
    }
}
