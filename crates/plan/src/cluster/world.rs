//! The members' views laid side by side.

use std::collections::BTreeMap;
use std::net::IpAddr;

use super::{Member, Observed};
use crate::action::{Action, Step};
use crate::node::{Health, NodeId, NodeView, Peer};
use crate::slots::SlotSet;

/// A member that answered.
#[derive(Clone, Copy, Debug)]
pub struct Seen<'a> {
    /// The pod.
    pub member: &'a Member,
    /// Where it answered.
    pub ip: IpAddr,
    /// What it said.
    pub view: &'a NodeView,
    index: usize,
}

impl Seen<'_> {
    /// A step for this member.
    pub fn step(&self, action: Action, reason: impl Into<String>) -> Step {
        Step {
            pod: self.member.pod.clone(),
            ip: self.ip,
            id: self.view.id.clone(),
            action,
            reason: reason.into(),
        }
    }

    /// The epoch of the member's claim to its slots.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.view.own_line().map_or(0, |line| line.epoch)
    }
}

/// All members, those that answered and those that did not. What is asked often is worked out once: with 500 members
/// every question that walks all tables costs a quarter of a million steps.
#[derive(Debug)]
pub struct World<'a> {
    members: &'a [Member],
    seen: Vec<Seen<'a>>,
    by_id: BTreeMap<&'a NodeId, usize>,
    /// For each of `seen`, whom it has been introduced to.
    known: Vec<BTreeMap<&'a NodeId, &'a Peer>>,
    owners: BTreeMap<&'a NodeId, SlotSet>,
    unowned: SlotSet,
}

impl<'a> World<'a> {
    /// Lays out what was observed.
    #[must_use]
    pub fn new(observed: &'a Observed) -> Self {
        let mut seen: Vec<Seen<'a>> = observed
            .members
            .iter()
            .filter_map(|member| {
                Some(Seen {
                    member,
                    ip: member.ip?,
                    view: member.view.as_ref().ok()?,
                    index: 0,
                })
            })
            .collect();
        seen.sort_by(|a, b| (a.member.shard, &a.member.pod).cmp(&(b.member.shard, &b.member.pod)));
        for (index, seen) in seen.iter_mut().enumerate() {
            seen.index = index;
        }
        let by_id: BTreeMap<&NodeId, usize> = seen.iter().map(|seen| (&seen.view.id, seen.index)).collect();
        let known = seen.iter().map(|seen| acquaintances(seen.view)).collect();
        let owners = owners(&seen, &by_id);
        let unowned = owners
            .values()
            .fold(SlotSet::all(), |rest, slots| rest.minus(slots));
        Self {
            members: &observed.members,
            seen,
            by_id,
            known,
            owners,
            unowned,
        }
    }

    /// Every pod.
    #[must_use]
    pub const fn members(&self) -> &'a [Member] {
        self.members
    }

    /// Those that answered, by shard and name.
    #[must_use]
    pub fn seen(&self) -> &[Seen<'a>] {
        &self.seen
    }

    /// Those that did not answer.
    pub fn unseen(&self) -> impl Iterator<Item = &'a Member> {
        self.members
            .iter()
            .filter(|member| member.view.is_err() || member.ip.is_none())
    }

    /// Those of a shard that answered.
    pub fn seen_in(&self, shard: u32) -> impl Iterator<Item = Seen<'a>> {
        self.seen
            .iter()
            .copied()
            .filter(move |seen| seen.member.shard == shard)
    }

    /// The member with this id.
    #[must_use]
    pub fn by_id(&self, id: &NodeId) -> Option<Seen<'a>> {
        self.by_id
            .get(id)
            .and_then(|&index| self.seen.get(index))
            .copied()
    }

    /// What a member's table says of another, once the two have been introduced.
    #[must_use]
    pub fn knows(&self, seen: &Seen<'_>, id: &NodeId) -> Option<&'a Peer> {
        self.known.get(seen.index)?.get(id).copied()
    }

    /// The shards that have a pod, in order.
    #[must_use]
    pub fn shards(&self) -> Vec<u32> {
        let mut shards: Vec<u32> = self.members.iter().map(|member| member.shard).collect();
        shards.sort_unstable();
        shards.dedup();
        shards
    }

    /// Whether no member has ever been part of a cluster, as far as anyone can tell.
    #[must_use]
    pub fn is_untouched(&self) -> bool {
        self.seen.iter().all(|seen| seen.view.is_blank())
    }

    /// Whether a member that may hold slots or data does not answer. While one is silent, what it owns is unknown.
    #[must_use]
    pub fn has_silent_member(&self) -> bool {
        self.unseen().any(|member| member.started)
    }

    /// The same for one shard. Replicas follow only within their shard, so nobody else can be its lost primary.
    #[must_use]
    pub fn has_silent_member_in(&self, shard: u32) -> bool {
        self.unseen()
            .any(|member| member.started && member.shard == shard)
    }

    /// Whether everybody who answered and stays knows everybody else who does.
    #[must_use]
    pub fn is_acquainted(&self) -> bool {
        let staying = || self.seen.iter().filter(|seen| !seen.member.terminating);
        staying().all(|a| staying().all(|b| self.knows(a, &b.view.id).is_some()))
    }

    /// Who owns which slots, by the members' own word, and for those who did not answer by what the others believe.
    #[must_use]
    pub const fn owners(&self) -> &BTreeMap<&'a NodeId, SlotSet> {
        &self.owners
    }

    /// The slots that nobody owns in anybody's view.
    #[must_use]
    pub const fn unowned(&self) -> &SlotSet {
        &self.unowned
    }

    /// The slots whose owner is gone and of which nobody who answers has a copy. None while somebody is silent.
    #[must_use]
    pub fn lost(&self) -> BTreeMap<&'a NodeId, SlotSet> {
        if self.has_silent_member() {
            return BTreeMap::new();
        }
        let gone = self
            .owners
            .iter()
            .filter(|(id, _)| self.by_id(id).is_none() && !self.is_followed(id));
        gone.map(|(id, slots)| (*id, slots.clone())).collect()
    }

    /// The slots that are served: owned by a primary that answered, believes the cluster to be fine, and whose claim
    /// every other owner that answered agrees with.
    #[must_use]
    pub fn served(&self) -> SlotSet {
        let owning: Vec<&Seen<'_>> = self
            .seen
            .iter()
            .filter(|seen| self.owners.contains_key(&seen.view.id))
            .collect();
        let serving = owning
            .iter()
            .filter(|seen| seen.view.cluster_ok && seen.view.is_primary());
        serving.fold(SlotSet::empty(), |served, seen| {
            let others = owning.iter().filter(|other| other.view.id != seen.view.id);
            let agreed = others.fold(seen.view.own_slots(), |agreed, other| {
                let believed = self
                    .knows(other, &seen.view.id)
                    .map(|peer| peer.slots.clone())
                    .unwrap_or_default();
                agreed.intersection(&believed)
            });
            served.union(&agreed)
        })
    }

    /// Members that could mislead a client, or could not take part in an election: they do not call the cluster
    /// fine, do not know every owner of slots, or hold somebody for failed who is not.
    pub fn unsettled(&self) -> impl Iterator<Item = Seen<'a>> {
        self.seen.iter().copied().filter(|seen| {
            let misled = self
                .owners
                .iter()
                .any(|(id, slots)| self.knows(seen, id).is_none_or(|peer| peer.slots != *slots));
            let wrong = seen
                .view
                .peers
                .iter()
                .any(|peer| peer.health == Health::Failed && self.by_id(&peer.id).is_some());
            !seen.view.cluster_ok || misled || wrong
        })
    }

    /// Whether a shard has all the copies it should have: its primary and its replicas answer and are in sync. While it
    /// has not, no copy may be taken away by anybody's doing.
    #[must_use]
    pub fn is_redundant(&self, shard: u32, members: u32) -> bool {
        let whole = self
            .seen_in(shard)
            .filter(|seen| seen.view.is_primary() || seen.view.in_sync())
            .count();
        let owners = self
            .seen_in(shard)
            .filter(|seen| self.owners.contains_key(&seen.view.id))
            .count();
        owners == 1 && members > 1 && whole >= members as usize
    }

    /// Whether any member that answered follows this node.
    #[must_use]
    pub fn is_followed(&self, id: &NodeId) -> bool {
        self.seen.iter().any(|seen| seen.view.primary() == Some(id))
    }

    /// Whether enough owners of slots may be alive to win a vote. Those who are silent towards us may still vote.
    #[must_use]
    pub fn may_have_majority(&self) -> bool {
        let alive = self.owners.keys().filter(|id| self.by_id(id).is_some()).count();
        let silent = self.unseen().filter(|member| member.started).count();
        (alive + silent) * 2 > self.owners.len()
    }
}

fn acquaintances(view: &NodeView) -> BTreeMap<&NodeId, &Peer> {
    view.peers
        .iter()
        .filter(|peer| !peer.handshake)
        .map(|peer| (&peer.id, peer))
        .collect()
}

fn owners<'a>(seen: &[Seen<'a>], by_id: &BTreeMap<&'a NodeId, usize>) -> BTreeMap<&'a NodeId, SlotSet> {
    let mut owners: BTreeMap<&'a NodeId, SlotSet> = BTreeMap::new();
    for seen in seen {
        owners.insert(&seen.view.id, seen.view.own_slots());
    }
    for peer in seen.iter().flat_map(|seen| &seen.view.peers) {
        if !peer.slots.is_empty() && !by_id.contains_key(&peer.id) {
            let claim = owners.entry(&peer.id).or_default();
            *claim = claim.union(&peer.slots);
        }
    }
    owners.retain(|_, slots| !slots.is_empty());
    owners
}
