//! Invariants that every plan must keep, written without looking at how plans are made.
//!
//! A plan that breaks one is not carried out; the object says so. This is the last line before the data.

use crate::action::Action;
use crate::cluster::{Observed, Plan, World};
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

/// Checks every step of a plan against what was observed.
pub fn check(plan: &Plan, observed: &Observed) -> Result<(), Violation> {
    let world = World::new(observed);
    let mut given = SlotSet::empty();
    for (index, step) in plan.steps.iter().enumerate() {
        let refuse = |rule: &'static str| {
            Err(Violation {
                pod: step.pod.clone(),
                action: step.action.to_string(),
                rule,
            })
        };
        let Some(target) = world.by_id(&step.id).filter(|seen| seen.ip == step.ip) else {
            return refuse("a step goes only to a member that answered under that id at that address");
        };
        match &step.action {
            Action::SetConfigEpoch(_) if !target.view.is_blank() => {
                return refuse("only a member without history gets an epoch");
            }
            Action::SetConfigEpoch(_) => {}
            Action::Meet(ip) => {
                if !world
                    .seen()
                    .iter()
                    .any(|seen| seen.ip == *ip && seen.view.id != step.id)
                {
                    return refuse("a member is introduced only to another member of this cluster");
                }
            }
            Action::AddSlots(slots) => {
                if !slots.minus(&world.unowned()).is_empty() {
                    return refuse("a slot that has an owner, even a lost one, is not given to another");
                }
                if !slots.intersection(&given).is_empty() {
                    return refuse("a slot is given to one member only");
                }
                if world.has_silent_member() {
                    return refuse("no slot is given away while a member that may own it is silent");
                }
                if !target.view.is_primary() {
                    return refuse("a replica owns no slots");
                }
                given = given.union(slots);
            }
            Action::Replicate(primary) => {
                let fit = world
                    .by_id(primary)
                    .is_some_and(|seen| seen.view.is_primary() && seen.view.id != step.id);
                if !fit {
                    return refuse("a member follows only a primary of this cluster, never itself");
                }
                if !target.view.own_slots().is_empty() {
                    return refuse("a member that owns slots does not become a replica");
                }
                if target.view.is_primary() && target.view.keys > 0 {
                    return refuse("keys that no other member is known to have are not thrown away");
                }
                if world.is_followed(&step.id) {
                    return refuse("a member that others follow does not become a replica itself");
                }
            }
            Action::FailoverForce => {
                if target.view.is_primary() {
                    return refuse("only a replica can be promoted");
                }
                if world.has_silent_member() {
                    return refuse("nobody is promoted by us while the old primary may only be silent");
                }
                let same_shard = plan.steps.iter().skip(index + 1).any(|other| {
                    other.action == Action::FailoverForce
                        && world
                            .by_id(&other.id)
                            .is_some_and(|seen| seen.member.shard == target.member.shard)
                });
                if same_shard {
                    return refuse("one promotion at a time in a shard");
                }
            }
            Action::Forget(id) => {
                if world.by_id(id).is_some() || world.unseen().next().is_some() {
                    return refuse("an id is forgotten only when every member answered and none has it");
                }
                if world.owners().contains_key(id) || world.is_followed(id) {
                    return refuse("an id that owns slots or is followed is not forgotten");
                }
            }
        }
    }
    Ok(())
}
