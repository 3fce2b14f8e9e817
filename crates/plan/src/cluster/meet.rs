//! Introducing the members to each other.

use foreshard_api::conditions::Reason;

use super::primaries::{Primary, primaries};
use super::world::{Seen, World};
use super::{Stage, Wait};
use crate::action::{Action, Step};
use crate::node::Health;

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
            && seen.view.own_line().is_some_and(|line| line.epoch == 0)
        {
            let epoch = index as u64 + 1;
            steps.push(seen.step(Action::SetConfigEpoch(epoch), "each primary gets its own epoch"));
        }
    }
    steps
}

/// Introduces members that do not know each other.
pub(super) fn meet(world: &World<'_>) -> Stage {
    let mut stage = Stage::default();
    let Some(anchor) = anchor(world) else { return stage };
    let full = world.seen().len() <= FULL_MESH;
    for (index, a) in world.seen().iter().enumerate() {
        for b in world.seen().iter().skip(index + 1) {
            let with_anchor = [a, b].iter().any(|seen| seen.view.id == anchor.view.id);
            if (full || with_anchor) && !acquainted(a, b) {
                introduce(world, a, b, &mut stage);
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
fn anchor<'a>(world: &World<'a>) -> Option<Seen<'a>> {
    world.seen().iter().copied().max_by_key(|seen| {
        let known = world
            .seen()
            .iter()
            .filter(|other| seen.view.knows(&other.view.id).is_some())
            .count();
        (
            !seen.view.own_slots().is_empty(),
            !seen.view.is_blank(),
            known,
            std::cmp::Reverse(&seen.member.pod),
        )
    })
}

/// Whether both know each other at the addresses they have now. A pod that came back elsewhere must be met again.
fn acquainted(a: &Seen<'_>, b: &Seen<'_>) -> bool {
    let knows = |one: &Seen<'_>, other: &Seen<'_>| {
        one.view
            .knows(&other.view.id)
            .is_some_and(|peer| peer.ip == Some(other.ip))
    };
    knows(a, b) && knows(b, a)
}

fn introduce(world: &World<'_>, a: &Seen<'_>, b: &Seen<'_>, stage: &mut Stage) {
    for seen in [a, b] {
        if let Some(stranger) = stranger(world, seen) {
            let message = format!(
                "Pod {} belongs to a cluster with {stranger}, which is no member of this one; it is left alone",
                seen.member.pod
            );
            stage.waits.push(Wait::fault(Reason::WaitingForGossip, message));
            return;
        }
    }
    let under_way = a
        .view
        .peers
        .iter()
        .any(|peer| peer.handshake && peer.ip == Some(b.ip));
    if !under_way {
        let reason = format!("it does not know {}", b.member.pod);
        stage.steps.push(a.step(Action::Meet(b.ip), reason));
    }
}

/// A live owner of slots that this member knows and that is nobody of ours: the member belongs to another cluster,
/// as may happen when an address was used by somebody else before.
fn stranger(world: &World<'_>, seen: &Seen<'_>) -> Option<String> {
    if world.has_silent_member() {
        // It may well be the one that does not answer just now.
        return None;
    }
    let unknown = seen.view.peers.iter().find(|peer| {
        let ours = world
            .members()
            .iter()
            .any(|member| member.ip.is_some() && member.ip == peer.ip);
        peer.health == Health::Fine && !peer.handshake && !peer.slots.is_empty() && peer.ip.is_some() && !ours
    })?;
    let known_to_all = world
        .seen()
        .iter()
        .all(|other| other.view.is_blank() || other.view.knows(&unknown.id).is_some());
    (!known_to_all && world.by_id(&unknown.id).is_none()).then(|| unknown.id.short().to_owned())
}
