//! The status of a `ValkeyCluster`, derived from one look. Nothing here is remembered, nothing is read back but the
//! times at which conditions changed.

use foreshard_api::conditions::{
    DEGRADED, FORMED, PROGRESSING, READY, REPLICAS_IN_SYNC, Reason, SLOTS_COVERED, UP_TO_DATE,
};
use foreshard_api::labels;
use foreshard_api::valkey_cluster::{MemberStatus, Phase, Role, ShardStatus};
use foreshard_api::{PORT, SLOTS, ValkeyClusterStatus};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

use super::{Member, Plan, Wait, Wish, World};

/// How many steps and waits `status.plan` shows.
const PLAN_LINES: usize = 8;

/// Which object a status is for.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// The cluster's name.
    pub name: &'a str,
    /// Its namespace.
    pub namespace: &'a str,
    /// The generation of the spec that was acted upon.
    pub generation: i64,
    /// What the object says now: condition times are kept from it.
    pub previous: &'a [Condition],
}

/// Says how the cluster is.
#[must_use]
pub fn report(
    subject: Subject<'_>,
    wish: Wish,
    world: &World<'_>,
    plan: &Plan,
    now: Timestamp,
) -> ValkeyClusterStatus {
    let served = world.served();
    let selector = labels::cluster_selector(subject.name);
    let facts = Facts {
        slots: served.len(),
        members: world.seen().len(),
        wanted: wish.pods() as usize,
        formed: world.seen().len() > 1 && world.is_acquainted() && !world.is_untouched(),
        ever_owned: world.unowned().len() < usize::from(SLOTS),
        old_template: world
            .members()
            .iter()
            .filter(|member| member.old_template)
            .map(|m| m.pod.as_str())
            .collect(),
    };
    let phase = phase(&facts, plan);
    let message = message(&facts, plan, wish);
    ValkeyClusterStatus {
        observed_generation: subject.generation,
        phase: Some(phase),
        members: format!("{}/{}", facts.members, facts.wanted),
        slots: format!("{}/{SLOTS}", facts.slots),
        serving_shards: count(
            world
                .seen()
                .iter()
                .filter(|seen| !seen.view.own_slots().is_empty())
                .count(),
        ),
        selector: labels::selector_string(&selector),
        endpoint: format!("{}.{}.svc:{PORT}", subject.name, subject.namespace),
        engine: engines(world),
        conditions: conditions(subject, &facts, plan, &message, now),
        plan: plan_lines(plan),
        shards: world
            .shards()
            .into_iter()
            .map(|shard| shard_status(shard, world))
            .collect(),
        message,
    }
}

/// The status of an object that cannot be acted upon at all.
#[must_use]
pub fn refused(subject: Subject<'_>, reason: Reason, message: &str, now: Timestamp) -> ValkeyClusterStatus {
    let wishes = [
        (READY, false, reason, message),
        (
            PROGRESSING,
            false,
            reason,
            "Nothing is done until the fault is mended",
        ),
        (DEGRADED, true, reason, message),
    ];
    ValkeyClusterStatus {
        observed_generation: subject.generation,
        phase: Some(Phase::Failed),
        message: message.to_owned(),
        conditions: wishes
            .into_iter()
            .map(|wish| condition(subject, wish, now))
            .collect(),
        ..ValkeyClusterStatus::default()
    }
}

/// Adds a fault that stopped the plan from being carried out.
#[must_use]
pub fn with_fault(
    mut status: ValkeyClusterStatus,
    subject: Subject<'_>,
    reason: Reason,
    fault: &str,
    now: Timestamp,
) -> ValkeyClusterStatus {
    fault.clone_into(&mut status.message);
    status.phase = Some(Phase::Degraded);
    for (kind, value) in [(READY, false), (PROGRESSING, true), (DEGRADED, true)] {
        let new = condition(subject, (kind, value, reason, fault), now);
        if let Some(old) = status.conditions.iter_mut().find(|old| old.type_ == kind) {
            *old = new;
        }
    }
    status
}

struct Facts<'a> {
    slots: usize,
    members: usize,
    wanted: usize,
    formed: bool,
    ever_owned: bool,
    old_template: Vec<&'a str>,
}

impl Facts<'_> {
    fn covered(&self) -> bool {
        self.slots == usize::from(SLOTS)
    }
}

fn phase(facts: &Facts<'_>, plan: &Plan) -> Phase {
    if plan.is_done() {
        return Phase::Running;
    }
    let waits_for = |reason: Reason| plan.waits.iter().any(|wait| wait.reason == reason);
    if plan.waits.iter().any(|wait| wait.fault) && facts.ever_owned {
        return Phase::Degraded;
    }
    if facts.members == 0 {
        return if waits_for(Reason::PodFailing) {
            Phase::WaitingForPods
        } else {
            Phase::Creating
        };
    }
    if !facts.formed {
        return if waits_for(Reason::WaitingForPods) {
            Phase::WaitingForPods
        } else {
            Phase::InitializingCluster
        };
    }
    if !facts.covered() {
        return Phase::AssigningSlots;
    }
    if facts.members < facts.wanted {
        return Phase::WaitingForPods;
    }
    if waits_for(Reason::WaitingForSync) || !plan.steps.is_empty() {
        return Phase::ConfiguringReplicas;
    }
    Phase::VerifyingClusterHealth
}

fn message(facts: &Facts<'_>, plan: &Plan, wish: Wish) -> String {
    let fault = plan.waits.iter().find(|wait| wait.fault);
    if let Some(wait) = fault.or_else(|| plan.waits.first()) {
        return wait.message.clone();
    }
    if let Some(step) = plan.steps.first() {
        return step.to_string();
    }
    let old = facts.old_template.len();
    let rest = if old == 0 {
        String::new()
    } else {
        format!("; {old} pods still run the earlier template")
    };
    format!(
        "All {} shards serve with {} members{rest}",
        wish.shards, facts.members
    )
}

fn conditions(
    subject: Subject<'_>,
    facts: &Facts<'_>,
    plan: &Plan,
    message: &str,
    now: Timestamp,
) -> Vec<Condition> {
    let fault = plan.waits.iter().find(|wait| wait.fault);
    let first = fault.or_else(|| plan.waits.first());
    let because = |default: Reason| first.map_or(default, |wait| wait.reason);
    let done = plan.is_done();
    let lagging: Vec<&Wait> = plan
        .waits
        .iter()
        .filter(|wait| wait.reason == Reason::WaitingForSync)
        .collect();
    let attaching = plan
        .steps
        .iter()
        .any(|step| matches!(step.action, crate::Action::Replicate(_)));
    let in_sync = facts.formed && lagging.is_empty() && !attaching && facts.members == facts.wanted;
    let covered_text = format!("{} of {SLOTS} slots are served", facts.slots);
    let formed_text = format!("{} of {} members answer", facts.members, facts.wanted);
    let sync_text = lagging.first().map_or_else(
        || {
            if in_sync {
                "Every replica follows its primary".to_owned()
            } else {
                formed_text.clone()
            }
        },
        |wait| wait.message.clone(),
    );
    let (current, template_text) = if facts.old_template.is_empty() {
        (true, "Every pod runs what the spec asks for".to_owned())
    } else {
        (
            false,
            format!(
                "Pods with the earlier template, which they keep until deleted: {}",
                facts.old_template.join(", ")
            ),
        )
    };
    let pick = |good: bool, bad: Reason| if good { Reason::AsAsked } else { bad };
    let wishes = [
        (READY, done, pick(done, because(Reason::Forming)), message),
        (PROGRESSING, !done, pick(done, because(Reason::Forming)), message),
        (
            DEGRADED,
            fault.is_some(),
            fault.map_or(Reason::AsAsked, |wait| wait.reason),
            fault.map_or("Nothing is wrong", |w| &w.message),
        ),
        (
            FORMED,
            facts.formed,
            pick(facts.formed, Reason::WaitingForGossip),
            &formed_text,
        ),
        (
            SLOTS_COVERED,
            facts.covered(),
            pick(facts.covered(), Reason::SlotsUncovered),
            &covered_text,
        ),
        (
            REPLICAS_IN_SYNC,
            in_sync,
            pick(in_sync, Reason::WaitingForSync),
            &sync_text,
        ),
        (
            UP_TO_DATE,
            current,
            pick(current, Reason::OldTemplate),
            &template_text,
        ),
    ];
    wishes
        .into_iter()
        .map(|wish| condition(subject, wish, now))
        .collect()
}

/// One condition; its time moves only when its status does.
fn condition(
    subject: Subject<'_>,
    (kind, value, reason, message): (&str, bool, Reason, &str),
    now: Timestamp,
) -> Condition {
    let status = if value { "True" } else { "False" };
    let before = subject
        .previous
        .iter()
        .find(|old| old.type_ == kind && old.status == status);
    Condition {
        type_: kind.to_owned(),
        status: status.to_owned(),
        reason: reason.as_str().to_owned(),
        message: message.to_owned(),
        observed_generation: Some(subject.generation),
        last_transition_time: before.map_or(Time(now), |old| old.last_transition_time.clone()),
    }
}

fn plan_lines(plan: &Plan) -> Vec<String> {
    let steps = plan.steps.iter().map(ToString::to_string);
    let waits = plan.waits.iter().map(|wait| format!("waits: {}", wait.message));
    let mut lines: Vec<String> = steps.chain(waits).collect();
    let more = lines.len().saturating_sub(PLAN_LINES);
    lines.truncate(PLAN_LINES);
    if more > 0 {
        lines.push(format!("and {more} more"));
    }
    lines
}

fn engines(world: &World<'_>) -> Option<String> {
    let mut engines: Vec<&str> = world
        .seen()
        .iter()
        .map(|seen| seen.view.engine.as_str())
        .collect();
    engines.sort_unstable();
    engines.dedup();
    (!engines.is_empty()).then(|| engines.join(", "))
}

fn shard_status(shard: u32, world: &World<'_>) -> ShardStatus {
    let mut members: Vec<&Member> = world
        .members()
        .iter()
        .filter(|member| member.shard == shard)
        .collect();
    members.sort_by(|a, b| a.pod.cmp(&b.pod));
    let slots = members.iter().filter_map(|member| member.view.as_ref().ok());
    let slots = slots.fold(crate::SlotSet::empty(), |all, view| all.union(&view.own_slots()));
    ShardStatus {
        shard,
        slots: slots.to_string(),
        members: members.into_iter().map(member_status).collect(),
    }
}

fn member_status(member: &Member) -> MemberStatus {
    let (pod, node) = (member.pod.clone(), member.node.clone());
    match &member.view {
        Err(_) => MemberStatus {
            pod,
            node,
            ..MemberStatus::default()
        },
        Ok(view) => {
            let (role, in_sync) = match (view.is_primary(), view.in_sync()) {
                (true, _) => (Role::Primary, ""),
                (false, true) => (Role::Replica, "yes"),
                (false, false) => (Role::Replica, "no"),
            };
            MemberStatus {
                pod,
                node,
                id: view.id.to_string(),
                role,
                in_sync: in_sync.to_owned(),
            }
        }
    }
}

fn count(number: usize) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}
