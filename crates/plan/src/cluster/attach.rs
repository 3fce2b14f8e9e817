//! Making the members of a shard follow its primary.

use foreshard_api::conditions::Reason;

use super::primaries::primaries;
use super::world::{Seen, World};
use super::{Stage, Wait};
use crate::action::Action;

/// Attaches members that do not follow their shard's primary, and waits for those that are still copying.
pub(super) fn attach(world: &World<'_>) -> Stage {
    let mut stage = Stage::default();
    for (shard, primary) in primaries(world) {
        let Some(primary) = primary.to_follow() else {
            continue;
        };
        for seen in world
            .seen_in(shard)
            .filter(|seen| seen.view.id != primary.view.id)
        {
            follow(world, &seen, &primary, &mut stage);
        }
    }
    stage
}

fn follow(world: &World<'_>, seen: &Seen<'_>, primary: &Seen<'_>, stage: &mut Stage) {
    let (pod, leader) = (&seen.member.pod, &primary.member.pod);
    let view = seen.view;
    if view.primary() == Some(&primary.view.id) {
        if !view.in_sync() {
            stage.waits.push(Wait::normal(
                Reason::WaitingForSync,
                format!("Pod {pod} is catching up with {leader}"),
            ));
        }
    } else if !view.own_slots().is_empty() {
        let message = format!(
            "Pod {pod} owns slots {} beside its shard's primary {leader}",
            view.own_slots()
        );
        stage.waits.push(Wait::fault(Reason::SlotsUncovered, message));
    } else if view.is_primary() && view.keys > 0 {
        let message = format!(
            "Pod {pod} owns no slots but holds {} keys; it is left alone",
            view.keys
        );
        stage.waits.push(Wait::fault(Reason::StrayKeys, message));
    } else if world.is_followed(&view.id) {
        // Its followers are re-pointed in this plan; in the middle of a chain it is left alone until they are.
        let message = format!("Pod {pod} is followed by others and joins {leader} after them");
        stage.waits.push(Wait::normal(Reason::WaitingForSync, message));
    } else if world.knows(seen, &primary.view.id).is_none() {
        stage.waits.push(Wait::normal(
            Reason::WaitingForGossip,
            format!("Pod {pod} does not know {leader} yet"),
        ));
    } else {
        stage.steps.push(seen.step(
            Action::Replicate(primary.view.id.clone()),
            format!("{leader} is its shard's primary"),
        ));
    }
}
