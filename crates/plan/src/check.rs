//! Invariants that every plan must keep, written without looking at how plans are made.
//!
//! A plan that breaks one is not carried out; the object says so. This is the last line before the data.

use crate::action::{Action, Step};
use crate::cluster::{Plan, Seen, World};
use crate::node::NodeId;
use crate::slots::SlotSet;

/// A rule that a plan would break.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{pod}: {action}: {rule}")]
pub struct Violation {
    /// The member the step is for.
    pub pod: String,
    /// The step.
    pub action: String,
    /// The rule.
    pub rule: &'static str,
}

/// The name of the first rule that a step breaks.
type Broken = Result<(), &'static str>;

/// Checks every step of a plan against what was observed.
pub fn check(plan: &Plan, world: &World<'_>) -> Result<(), Violation> {
    let mut given = SlotSet::empty();
    let mut promotions = 0;
    for step in &plan.steps {
        check_step(world, step, &mut given, &mut promotions).map_err(|rule| Violation {
            pod: step.pod.clone(),
            action: step.action.to_string(),
            rule,
        })?;
    }
    Ok(())
}

fn check_step(world: &World<'_>, step: &Step, given: &mut SlotSet, promotions: &mut usize) -> Broken {
    let target = world
        .by_id(&step.id)
        .filter(|seen| seen.ip == step.ip)
        .ok_or("a step goes only to a member that answered under that id at that address")?;
    match &step.action {
        Action::SetConfigEpoch(_) => rule(
            target.view.is_blank(),
            "only a member without history gets an epoch",
        ),
        Action::Meet { ip, id } => {
            let other = world
                .by_id(id)
                .is_some_and(|seen| seen.ip == *ip && seen.view.id != step.id);
            rule(
                other,
                "a member is introduced only to another member of this cluster",
            )
        }
        Action::AddSlots(slots) => {
            rule(
                slots.intersection(given).is_empty(),
                "a slot is given to one member only",
            )?;
            *given = given.union(slots);
            add_slots(world, &target, slots)
        }
        Action::Replicate(primary) => replicate(world, &target, primary),
        Action::FailoverForce => {
            *promotions += 1;
            rule(
                *promotions == 1,
                "one promotion at a time, or they take each other's votes",
            )?;
            promote(world, &target)
        }
        Action::Forget(id) => forget(world, id),
    }
}

fn rule(kept: bool, rule: &'static str) -> Broken {
    if kept { Ok(()) } else { Err(rule) }
}

fn add_slots(world: &World<'_>, target: &Seen<'_>, slots: &SlotSet) -> Broken {
    rule(
        slots.minus(world.unowned()).is_empty(),
        "a slot that has an owner, even a lost one, is not given to another",
    )?;
    rule(
        !world.has_silent_member(),
        "no slot is given away while a member that may own it is silent",
    )?;
    rule(target.view.is_primary(), "a replica owns no slots")
}

fn replicate(world: &World<'_>, target: &Seen<'_>, primary: &NodeId) -> Broken {
    let leader = world
        .by_id(primary)
        .filter(|seen| seen.view.is_primary() && seen.view.id != target.view.id)
        .ok_or("a member follows only a primary of this cluster, never itself")?;
    let outvoted = world.seen().iter().any(|other| {
        let contested = !other
            .view
            .own_slots()
            .intersection(&leader.view.own_slots())
            .is_empty();
        other.view.id != leader.view.id && contested && other.epoch() > leader.epoch()
    });
    rule(
        !outvoted,
        "nobody is made to follow a primary whose slots another claims with a later vote",
    )?;
    rule(
        target.view.own_slots().is_empty(),
        "a member that owns slots does not become a replica",
    )?;
    rule(
        !(target.view.is_primary() && target.view.keys > 0),
        "keys that no other member is known to have are not thrown away",
    )?;
    rule(
        !world.is_followed(&target.view.id),
        "a member that others follow does not become a replica itself",
    )
}

fn promote(world: &World<'_>, target: &Seen<'_>) -> Broken {
    let lost = target.view.primary().ok_or("only a replica can be promoted")?;
    rule(
        world.by_id(lost).is_none(),
        "nobody is promoted by us while the old primary answers",
    )?;
    rule(
        !world.has_silent_member_in(target.member.shard),
        "nobody is promoted by us while the old primary may only be silent",
    )?;
    let cut_off = target
        .view
        .follows
        .as_ref()
        .is_some_and(|following| !following.link_up && !following.syncing);
    rule(
        cut_off,
        "only a replica with a whole copy that has lost its link is promoted",
    )?;
    let further = world.seen().iter().any(|other| {
        let syncing = other
            .view
            .follows
            .as_ref()
            .is_some_and(|following| following.syncing);
        other.view.primary() == Some(lost) && !syncing && other.view.offset > target.view.offset
    });
    rule(!further, "the replica that has read furthest is promoted")
}

fn forget(world: &World<'_>, id: &NodeId) -> Broken {
    rule(
        world.by_id(id).is_none() && world.unseen().next().is_none(),
        "an id is forgotten only when every member answered and none has it",
    )?;
    rule(
        !world.owners().contains_key(id) && !world.is_followed(id),
        "an id that owns slots or is followed is not forgotten",
    )
}
