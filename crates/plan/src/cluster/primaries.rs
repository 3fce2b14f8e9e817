//! Which member is, or should become, the primary of each shard.

use std::collections::BTreeMap;

use super::world::{Seen, World};

/// What is known of a shard's primary.
#[derive(Clone, Copy, Debug)]
pub(super) enum Primary<'a> {
    /// A member that owns slots. Of two that claim them, the one with the later claim: the other was voted out and
    /// has not heard of it.
    Serving(Seen<'a>),
    /// No member owns slots and none follows an owner: this one is to begin.
    Chosen(Seen<'a>),
    /// A replica of this shard follows an owner of slots that is not there: the replica must be elected.
    Lost(&'a crate::node::NodeId),
    /// Nobody of the shard answers, or nobody is fit.
    Unknown,
}

impl<'a> Primary<'a> {
    /// The member that the others of the shard should follow.
    pub(super) const fn to_follow(self) -> Option<Seen<'a>> {
        match self {
            Self::Serving(seen) | Self::Chosen(seen) => Some(seen),
            Self::Lost(_) | Self::Unknown => None,
        }
    }
}

/// The primary of every shard that has pods.
///
/// Roles come from what the members say, never from their ordinals. Only a shard in which nobody owns anything and
/// nobody follows an owner gets a primary chosen, so that primaries spread over the Kubernetes nodes.
pub(super) fn primaries<'a>(world: &World<'a>) -> BTreeMap<u32, Primary<'a>> {
    let mut found: BTreeMap<u32, Primary<'a>> = BTreeMap::new();
    for shard in world.shards() {
        let serving = world
            .seen_in(shard)
            .filter(|seen| seen.view.is_primary() && !seen.view.own_slots().is_empty())
            .max_by_key(|seen| (seen.epoch(), seen.view.own_slots().len()));
        let lost = world
            .seen_in(shard)
            .filter_map(|seen| seen.view.primary())
            .find(|primary| world.by_id(primary).is_none() && world.owners().contains_key(primary));
        let known = match (serving, lost) {
            (Some(seen), _) => Primary::Serving(seen),
            (None, Some(id)) => Primary::Lost(id),
            (None, None) => Primary::Unknown,
        };
        found.insert(shard, known);
    }

    let mut per_node: BTreeMap<&str, usize> = BTreeMap::new();
    for seen in found.values().filter_map(|primary| primary.to_follow()) {
        *per_node.entry(&seen.member.node).or_default() += 1;
    }
    for (&shard, primary) in found
        .iter_mut()
        .filter(|(_, primary)| matches!(primary, Primary::Unknown))
    {
        if let Some(seen) = choose(world, shard, &per_node) {
            *per_node.entry(&seen.member.node).or_default() += 1;
            *primary = Primary::Chosen(seen);
        }
    }
    found
}

/// Picks who begins in a shard where nobody owns anything. An earlier choice stands (its epoch was set, or others
/// follow it already), then the Kubernetes node with the fewest primaries wins, then the name.
fn choose<'a>(world: &World<'a>, shard: u32, per_node: &BTreeMap<&str, usize>) -> Option<Seen<'a>> {
    world
        .seen_in(shard)
        .filter(|seen| seen.view.is_primary() && seen.view.keys == 0 && !seen.member.terminating)
        .min_by_key(|seen| {
            let on_node = per_node.get(seen.member.node.as_str()).copied().unwrap_or(0);
            (
                !world.is_followed(&seen.view.id),
                seen.epoch() == 0,
                on_node,
                seen.member.pod.clone(),
            )
        })
}
