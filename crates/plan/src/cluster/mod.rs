//! What to do next for a `ValkeyCluster`: a pure function of what is wanted and what was seen.
//!
//! The order of care is: reach the pods, introduce the members to each other, heal shards without a primary, attach
//! replicas, give slots that nobody owns to somebody, strike the dead off the tables. Each concern is a stage in a
//! file of its own. Steps of one plan go to different nodes at the same time, so a stage whose steps must come after
//! another's leaves them to the next look.

mod attach;
mod forget;
mod heal;
mod meet;
mod own;
mod primaries;
pub mod report;
#[cfg(test)]
mod tests;
mod world;

use std::net::IpAddr;
use std::time::Duration;

use foreshard_api::ValkeyClusterSpec;
use foreshard_api::conditions::Reason;
use jiff::Timestamp;

use crate::action::Step;
use crate::node::NodeView;

pub use world::{Seen, World};

/// How long a new cluster waits for its last pods before it begins without them.
///
/// Beginning early gives worse placement of primaries, never beginning gives nothing: half a minute is far more than
/// a pod takes to start when its image is there.
const PATIENCE: Duration = Duration::from_secs(30);

/// How soon to look again when the last plan did something or gossip is under way. Introductions and elections take
/// a tenth of a second, so a slower look would be what the user waits for.
const SOON: Duration = Duration::from_millis(100);
/// How soon to look again while pods start or replicas copy; changes of pods wake us earlier by themselves.
const SHORTLY: Duration = Duration::from_millis(500);
/// How soon to look again when all is well: the upper bound on noticing what no watch tells.
const CALM: Duration = Duration::from_secs(10);

/// What the user wants, after validation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wish {
    /// Shards that serve slots.
    pub shards: u32,
    /// Members of each shard: the primary and its replicas.
    pub members_per_shard: u32,
}

/// Why a spec cannot be acted upon, naming the field and the fix.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Invalid(pub String);

impl Wish {
    /// Reads the wish out of a spec. Admission refuses most of what is refused here; this is for objects that were
    /// stored before a rule was tightened.
    pub fn from_spec(spec: &ValkeyClusterSpec) -> Result<Self, Invalid> {
        let shards = u32::try_from(spec.shards)
            .ok()
            .filter(|shards| (3..=100).contains(shards));
        let replicas = u32::try_from(spec.replicas_per_shard)
            .ok()
            .filter(|replicas| *replicas <= 5);
        let Some(shards) = shards else {
            return Err(Invalid(format!(
                "spec.shards is {}: set it to 3 to 100",
                spec.shards
            )));
        };
        let Some(replicas) = replicas else {
            return Err(Invalid(format!(
                "spec.replicasPerShard is {}: set it to 0 to 5",
                spec.replicas_per_shard
            )));
        };
        if shards * (1 + replicas) > 500 {
            return Err(Invalid(
                "spec.shards * (1 + spec.replicasPerShard) is over 500 pods: lower one of them".into(),
            ));
        }
        if let Some(name) = spec
            .config
            .keys()
            .find(|name| foreshard_api::directives::is_owned(name))
        {
            return Err(Invalid(format!(
                "spec.config.{name} is set by Foreshard itself: remove it"
            )));
        }
        Ok(Self {
            shards,
            members_per_shard: 1 + replicas,
        })
    }

    /// How many pods the cluster should have.
    #[must_use]
    pub const fn pods(self) -> u32 {
        self.shards * self.members_per_shard
    }
}

/// Everything that was seen in one look.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Observed {
    /// The cluster's pods, each with its node's own view.
    pub members: Vec<Member>,
}

/// A pod of the cluster and the store node in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// The pod's name.
    pub pod: String,
    /// The shard it was made for.
    pub shard: u32,
    /// Its address, once it has one.
    pub ip: Option<IpAddr>,
    /// The Kubernetes node it runs on.
    pub node: String,
    /// When the pod was made.
    pub created: Option<Timestamp>,
    /// Whether its server may be running now or may have run: such a member can hold data.
    pub started: bool,
    /// Whether it is being deleted.
    pub terminating: bool,
    /// Why it does not start, in the words of the scheduler or the kubelet.
    pub trouble: Option<String>,
    /// Whether it runs an earlier revision of the pod template.
    pub old_template: bool,
    /// What its node says, or why it says nothing.
    pub view: Result<NodeView, String>,
}

/// What to do, and what is being waited for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Commands to store nodes. They are independent of each other.
    pub steps: Vec<Step>,
    /// What stands in the way of the rest.
    pub waits: Vec<Wait>,
    /// When to look again at the latest.
    pub look_again: Duration,
}

/// Something that is waited for, or that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wait {
    /// The class of it.
    pub reason: Reason,
    /// What, in a sentence for a person.
    pub message: String,
    /// Whether it is a fault rather than the normal course of things.
    pub fault: bool,
}

impl Wait {
    /// Something in the normal course of things.
    pub fn normal(reason: Reason, message: impl Into<String>) -> Self {
        Self {
            reason,
            message: message.into(),
            fault: false,
        }
    }

    /// Something that is wrong.
    pub fn fault(reason: Reason, message: impl Into<String>) -> Self {
        Self {
            reason,
            message: message.into(),
            fault: true,
        }
    }
}

/// What one stage has to say.
#[derive(Default)]
struct Stage {
    steps: Vec<Step>,
    waits: Vec<Wait>,
}

impl Stage {
    fn is_quiet(&self) -> bool {
        self.steps.is_empty() && self.waits.is_empty()
    }
}

/// Whether one member may be taken away, by a drain for example: only while every shard has all its copies in sync. Two
/// at once could be two primaries, and with them the majority that elects their successors.
#[must_use]
pub fn may_lose_one(wish: Wish, world: &World<'_>) -> bool {
    (0..wish.shards).all(|shard| world.is_redundant(shard, wish.members_per_shard))
}

/// Decides what to do next.
#[must_use]
pub fn plan(wish: Wish, world: &World<'_>, now: Timestamp) -> Plan {
    let mut waits = reach(wish, world, now);

    if world.is_untouched() {
        if !may_begin(wish, world, now) {
            return Plan::of(Vec::new(), waits, SHORTLY);
        }
        let epochs = meet::epochs(world);
        if !epochs.is_empty() {
            return Plan::of(epochs, waits, SOON);
        }
    }

    let mut steps = Vec::new();
    for stage in [meet::meet(world), heal::heal(world)] {
        steps.extend(stage.steps);
        waits.extend(stage.waits);
    }
    if steps.is_empty() {
        let attach = attach::attach(world);
        let own = own::own(wish, world);
        let settled = attach.is_quiet() && own.is_quiet();
        for stage in [attach, own] {
            steps.extend(stage.steps);
            waits.extend(stage.waits);
        }
        if settled && waits.is_empty() {
            steps.extend(forget::forget(world));
        }
    }
    let look_again = pace(&steps, &waits);
    Plan::of(steps, waits, look_again)
}

impl Plan {
    const fn of(steps: Vec<Step>, waits: Vec<Wait>, look_again: Duration) -> Self {
        Self {
            steps,
            waits,
            look_again,
        }
    }

    /// Whether nothing is left to do or to wait for.
    #[must_use]
    pub const fn is_done(&self) -> bool {
        self.steps.is_empty() && self.waits.is_empty()
    }
}

fn pace(steps: &[Step], waits: &[Wait]) -> Duration {
    let gossip = waits.iter().any(|wait| wait.reason == Reason::WaitingForGossip);
    match (steps.is_empty() && !gossip, waits.is_empty()) {
        (false, _) => SOON,
        (true, false) => SHORTLY,
        (true, true) => CALM,
    }
}

/// What is still to come of the pods themselves.
fn reach(wish: Wish, world: &World<'_>, now: Timestamp) -> Vec<Wait> {
    let mut waits = Vec::new();
    let present = world.members().len();
    let wanted = wish.pods() as usize;
    if present < wanted {
        let missing = wanted - present;
        waits.push(Wait::normal(
            Reason::WaitingForPods,
            format!("{missing} of {wanted} pods are not made yet"),
        ));
    }
    for member in world.unseen() {
        let why = member.view.as_ref().err().map_or("", String::as_str);
        waits.push(match (&member.trouble, waited_long(member, now)) {
            (Some(trouble), _) => Wait::fault(Reason::PodFailing, format!("Pod {}: {trouble}", member.pod)),
            (None, true) => Wait::fault(
                Reason::MemberUnreachable,
                format!("Pod {} does not answer: {why}", member.pod),
            ),
            (None, false) => Wait::normal(Reason::WaitingForPods, format!("Pod {} is starting", member.pod)),
        });
    }
    waits
}

fn waited_long(member: &Member, now: Timestamp) -> bool {
    let Some(created) = member.created else {
        return false;
    };
    now.duration_since(created).unsigned_abs() >= PATIENCE && now > created
}

/// Whether a cluster that has nothing yet may be begun: with all its pods, or, when some will not come, with at
/// least one of each shard. A member that started and does not answer could hold anything, so it is waited for.
fn may_begin(wish: Wish, world: &World<'_>, now: Timestamp) -> bool {
    if world.seen().len() >= wish.pods() as usize {
        return true;
    }
    let every_shard = (0..wish.shards).all(|shard| world.seen_in(shard).next().is_some());
    let known = world
        .unseen()
        .all(|member| !member.started && waited_long(member, now));
    every_shard && known && world.members().len() >= wish.pods() as usize
}
