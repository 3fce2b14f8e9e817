//! Shards whose primary is gone.

use foreshard_api::conditions::Reason;

use super::primaries::{Primary, primaries};
use super::world::{Seen, World};
use super::{Stage, Wait};
use crate::action::Action;
use crate::node::NodeId;

/// Promotes a replica where the old primary is proven gone, one at a time: two that ask for votes in the same moment
/// may take them from each other.
///
/// Proof is that every pod of the shard answers, under other ids, and that the replica has lost its link. Some engines
/// would not notice by themselves that a process came back without data at the same address under a new id: Valkey 8.1
/// and 9.1 were seen to elect within 1.3 s, Redis 7.0 and 8.0 not within 12 s at a node timeout of 2 s. While a member of
/// the shard is silent nothing is proven, and the engine's own election is waited for. The promotion still needs the
/// votes of a majority.
pub(super) fn heal(world: &World<'_>) -> Stage {
    let mut stage = Stage::default();
    for (shard, primary) in primaries(world) {
        let Primary::Lost(lost) = primary else { continue };
        let problem = format!("Shard {shard} lost its primary {}", lost.short());
        let message = match candidate(world, shard, lost) {
            None => format!("{problem}; waiting for the election"),
            Some(seen) if !world.may_have_majority() => format!(
                "{problem}, and too few primaries are left to elect another. {} has its data. When the others are \
                 surely gone, run there: cluster failover takeover",
                seen.member.pod
            ),
            Some(seen) => {
                if stage.steps.is_empty() {
                    stage.steps.push(seen.step(
                        Action::FailoverForce,
                        format!("the primary of shard {shard} is gone"),
                    ));
                }
                format!("{problem}; promoting {}", seen.member.pod)
            }
        };
        stage.waits.push(Wait::fault(Reason::SlotsUncovered, message));
    }
    stage
}

/// The replica to promote: of those that had a whole copy and have lost their link, the one that had read furthest.
fn candidate<'a>(world: &World<'a>, shard: u32, lost: &NodeId) -> Option<Seen<'a>> {
    if world.has_silent_member_in(shard) {
        return None;
    }
    let replicas = || {
        world
            .seen_in(shard)
            .filter(|seen| seen.view.primary() == Some(lost))
    };
    let cut_off = |seen: &Seen<'_>| {
        seen.view
            .follows
            .as_ref()
            .is_some_and(|following| !following.link_up)
    };
    if !replicas().all(|seen| cut_off(&seen)) {
        return None;
    }
    replicas()
        .filter(|seen| {
            seen.view
                .follows
                .as_ref()
                .is_some_and(|following| !following.syncing)
        })
        .max_by_key(|seen| (seen.view.offset, std::cmp::Reverse(&seen.member.pod)))
}
