//! Shards whose primary is gone.

use foreshard_api::conditions::Reason;

use super::primaries::{Primary, primaries};
use super::world::World;
use super::{Stage, Wait};
use crate::action::Action;

/// Promotes a replica where the old primary is proven gone.
///
/// Proof is that every pod which could be the lost primary answers, under other ids. The engine would never notice
/// by itself: a process that restarted without data answers at the old address under a new id, its peers take the
/// old id's address away, and a node without address is never declared failed. While any member is silent nothing is
/// proven, and the engine's own election is waited for. The promotion still needs the votes of a majority.
pub(super) fn heal(world: &World<'_>) -> Stage {
    let mut stage = Stage::default();
    for (shard, primary) in primaries(world) {
        let Primary::Lost(lost) = primary else { continue };
        let best = world
            .seen_in(shard)
            .filter(|seen| {
                seen.view.primary() == Some(lost) && !seen.view.follows.as_ref().is_some_and(|f| f.syncing)
            })
            .max_by_key(|seen| (seen.view.offset, std::cmp::Reverse(&seen.member.pod)));
        let wait = format!("Shard {shard} lost its primary {}", lost.short());
        match best {
            Some(seen) if !world.has_silent_member() => {
                stage.steps.push(seen.step(
                    Action::FailoverForce,
                    format!("the primary of shard {shard} is gone"),
                ));
                stage.waits.push(Wait::fault(
                    Reason::SlotsUncovered,
                    format!("{wait}; promoting {}", seen.member.pod),
                ));
            }
            _ => stage.waits.push(Wait::fault(
                Reason::SlotsUncovered,
                format!("{wait}; waiting for the election"),
            )),
        }
    }
    stage
}
