//! Giving slots that nobody owns to a primary.

use foreshard_api::conditions::Reason;

use super::primaries::{Primary, primaries};
use super::world::World;
use super::{Stage, Wait, Wish};
use crate::action::Action;
use crate::slots::{SlotSet, assign_unowned};

/// Assigns unowned slots, and says which slots nobody serves.
///
/// A slot is unowned only when no view names an owner. The slots of a lost shard still have one, a dead one, so they
/// are never handed out as if they were new: that would bury the data of an owner that may come back.
pub(super) fn own(wish: Wish, world: &World<'_>) -> Stage {
    let mut stage = Stage::default();
    let unowned = world.unowned();
    if unowned.is_empty() {
        stage.waits.extend(lost(world));
        stage.waits.extend(unserved(world));
        return stage;
    }
    if world.has_silent_member() || !world.is_acquainted() {
        let message = format!(
            "{} slots have no owner; waiting for every member before they are given out",
            unowned.len()
        );
        stage.waits.push(Wait::normal(Reason::SlotsUncovered, message));
        return stage;
    }
    let receivers: Vec<_> = primaries(world)
        .into_iter()
        .filter(|(shard, _)| *shard < wish.shards)
        .filter_map(|(_, primary)| match primary {
            Primary::Serving(seen) | Primary::Chosen(seen) => Some(seen),
            Primary::Lost(_) | Primary::Unknown => None,
        })
        .collect();
    if receivers.len() < wish.shards as usize {
        let message = format!(
            "{} slots have no owner; waiting for a member of every shard",
            unowned.len()
        );
        stage.waits.push(Wait::normal(Reason::SlotsUncovered, message));
        return stage;
    }
    let owned: Vec<usize> = receivers.iter().map(|seen| seen.view.own_slots().len()).collect();
    for (seen, slots) in receivers.iter().zip(assign_unowned(unowned, &owned)) {
        if !slots.is_empty() {
            stage
                .steps
                .push(seen.step(Action::AddSlots(slots), "nobody owns them"));
        }
    }
    stage
}

/// Only a person can decide what becomes of slots whose data is lost.
fn lost(world: &World<'_>) -> Vec<Wait> {
    let gone = world.lost().into_iter();
    gone.map(|(id, slots)| {
        let message = format!(
            "Slots {} belonged to {}, which is gone, and no member has a copy: their data is lost",
            shorten(&slots.to_string()),
            id.short()
        );
        Wait::fault(Reason::SlotsUncovered, message)
    })
    .collect()
}

/// What is not served yet although it has an owner, and who would mislead a client about it: a client may ask any
/// member where the slots are.
fn unserved(world: &World<'_>) -> Option<Wait> {
    let missing = world
        .lost()
        .values()
        .fold(SlotSet::all().minus(&world.served()), |rest, slots| {
            rest.minus(slots)
        });
    if !missing.is_empty() {
        let message = format!(
            "{} slots are not served yet: {}",
            missing.len(),
            shorten(&missing.to_string())
        );
        return Some(Wait::normal(Reason::WaitingForGossip, message));
    }
    let unsettled: Vec<&str> = world.unsettled().map(|seen| seen.member.pod.as_str()).collect();
    if unsettled.is_empty() {
        return None;
    }
    let message = format!(
        "Not all members know who serves what yet: {}",
        unsettled.join(", ")
    );
    Some(Wait::normal(Reason::WaitingForGossip, message))
}

fn shorten(ranges: &str) -> String {
    match ranges.char_indices().nth(60) {
        Some((end, _)) => format!("{} …", ranges.get(..end).unwrap_or(ranges)),
        None => ranges.to_owned(),
    }
}
