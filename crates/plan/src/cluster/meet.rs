//! Introducing the members to each other.

use foreshard_api::conditions::Reason;

use super::primaries::{Primary, primaries};
use super::world::{Seen, World};
use super::{Stage, Wait};
use crate::action::{Action, Step};

/// Up to this many members, everybody is introduced to everybody: the cluster is whole after one round of
/// handshakes instead of several rounds of gossip. Above it that would be thousands of commands, and gossip does it.
const FULL_MESH: usize = 16;

/// Gives the first primaries of a new cluster epochs of their own, before anybody knows anybody: later the engine
/// refuses it, and primaries with equal epochs take seconds to sort themselves out.
pub(super) fn epochs(world: &World<'_>) -> Vec<Step> {
    let chosen = primaries(world);
    let mut steps = Vec::new();
    for (index, primary) in chosen.values().enumerate() {
        if let Primary::Chosen(seen) = primary
            && seen.epoch() == 0
        {
            let epoch = index as u64 + 1;
            steps.push(seen.step(Action::SetConfigEpoch(epoch), "each primary gets its own epoch"));
        }
    }
    steps
}

/// Introduces members that do not know each other. One that is being deleted is left out: newcomers would learn from
/// it of owners that are about to go.
pub(super) fn meet(world: &World<'_>) -> Stage {
    let mut stage = Stage::default();
    let staying: Vec<Seen<'_>> = world
        .seen()
        .iter()
        .copied()
        .filter(|seen| !seen.member.terminating)
        .collect();
    let Some(anchor) = anchor(world, &staying) else {
        return stage;
    };
    let full = staying.len() <= FULL_MESH;
    for (index, a) in staying.iter().enumerate() {
        for b in staying.iter().skip(index + 1) {
            let with_anchor = [a, b].iter().any(|seen| seen.view.id == anchor.view.id);
            if (full || with_anchor) && !acquainted(world, a, b) {
                stage.steps.extend(introduce(a, b));
            }
        }
    }
    if stage.steps.is_empty() && !world.is_acquainted() {
        let message = "Members are being introduced to each other";
        stage.waits.push(Wait::normal(Reason::WaitingForGossip, message));
    }
    stage
}

/// The member that the others join: one with history and many acquaintances before a blank one.
fn anchor<'a>(world: &World<'a>, staying: &[Seen<'a>]) -> Option<Seen<'a>> {
    staying.iter().copied().max_by_key(|seen| {
        let known = staying
            .iter()
            .filter(|other| world.knows(seen, &other.view.id).is_some())
            .count();
        let owns = world.owners().contains_key(&seen.view.id);
        (
            owns,
            !seen.view.is_blank(),
            known,
            std::cmp::Reverse(&seen.member.pod),
        )
    })
}

/// Whether both know each other at the addresses they have now. A pod that came back elsewhere must be met again.
fn acquainted(world: &World<'_>, a: &Seen<'_>, b: &Seen<'_>) -> bool {
    let knows = |one: &Seen<'_>, other: &Seen<'_>| {
        world
            .knows(one, &other.view.id)
            .is_some_and(|peer| peer.ip == Some(other.ip))
    };
    knows(a, b) && knows(b, a)
}

fn introduce(a: &Seen<'_>, b: &Seen<'_>) -> Option<Step> {
    let under_way = a
        .view
        .peers
        .iter()
        .any(|peer| peer.handshake && peer.ip == Some(b.ip));
    let action = Action::Meet {
        ip: b.ip,
        id: b.view.id.clone(),
    };
    (!under_way).then(|| a.step(action, format!("it does not know {}", b.member.pod)))
}
