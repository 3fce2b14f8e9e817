//! Striking dead nodes off the members' tables.

use super::world::World;
use crate::action::{Action, Step};

/// Forgets ids that no pod answers to, that own nothing and that nobody follows.
///
/// Every member must have answered, or an id could belong to one that is only silent. All members are told in the
/// same pass, because an engine remembers what it forgot for a minute only and would learn it again from the others.
pub(super) fn forget(world: &World<'_>) -> Vec<Step> {
    if world.unseen().next().is_some() {
        return Vec::new();
    }
    let mut steps = Vec::new();
    for seen in world.seen() {
        for peer in &seen.view.peers {
            let dead = !peer.handshake
                && world.by_id(&peer.id).is_none()
                && !world.owners().contains_key(&peer.id)
                && !world.is_followed(&peer.id);
            if dead {
                steps.push(seen.step(Action::Forget(peer.id.clone()), "no pod answers to this id"));
            }
        }
    }
    steps
}
