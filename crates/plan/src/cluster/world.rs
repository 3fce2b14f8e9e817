//! The members' views laid side by side.

use std::collections::BTreeMap;
use std::net::IpAddr;

use super::{Member, Observed};
use crate::action::{Action, Step};
use crate::node::{NodeId, NodeView};
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
}

/// All members, those that answered and those that did not.
#[derive(Debug)]
pub struct World<'a> {
    members: &'a [Member],
    seen: Vec<Seen<'a>>,
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
                })
            })
            .collect();
        seen.sort_by(|a, b| (a.member.shard, &a.member.pod).cmp(&(b.member.shard, &b.member.pod)));
        Self {
            members: &observed.members,
            seen,
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
        self.seen.iter().copied().find(|seen| seen.view.id == *id)
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

    /// Whether everybody who answered knows everybody else who answered.
    #[must_use]
    pub fn is_acquainted(&self) -> bool {
        self.seen
            .iter()
            .all(|a| self.seen.iter().all(|b| a.view.knows(&b.view.id).is_some()))
    }

    /// Who owns which slots, by the members' own word, and for those who did not answer by what the others believe.
    #[must_use]
    pub fn owners(&self) -> BTreeMap<&'a NodeId, SlotSet> {
        let mut owners: BTreeMap<&'a NodeId, SlotSet> = BTreeMap::new();
        for seen in &self.seen {
            owners.insert(&seen.view.id, seen.view.own_slots());
        }
        for peer in self.seen.iter().flat_map(|seen| &seen.view.peers) {
            if self.by_id(&peer.id).is_none() && !peer.slots.is_empty() {
                let claim = owners.entry(&peer.id).or_default();
                *claim = claim.union(&peer.slots);
            }
        }
        owners.retain(|_, slots| !slots.is_empty());
        owners
    }

    /// The slots that nobody owns in anybody's view.
    #[must_use]
    pub fn unowned(&self) -> SlotSet {
        self.seen
            .iter()
            .flat_map(|seen| &seen.view.peers)
            .fold(SlotSet::all(), |rest, peer| rest.minus(&peer.slots))
    }

    /// The slots that are served: owned by a primary that answered, believes the cluster to be fine, and whose claim
    /// every other serving primary that answered agrees with.
    #[must_use]
    pub fn served(&self) -> SlotSet {
        let primaries: Vec<&Seen<'_>> = self
            .seen
            .iter()
            .filter(|seen| !seen.view.own_slots().is_empty())
            .collect();
        let serving = primaries
            .iter()
            .filter(|seen| seen.view.cluster_ok && seen.view.is_primary());
        serving.fold(SlotSet::empty(), |served, seen| {
            let own = seen.view.own_slots();
            let agreed = primaries
                .iter()
                .filter(|other| other.view.id != seen.view.id)
                .fold(own, |agreed, other| {
                    let believed = other
                        .view
                        .knows(&seen.view.id)
                        .map(|peer| peer.slots.clone())
                        .unwrap_or_default();
                    agreed.intersection(&believed)
                });
            served.union(&agreed)
        })
    }

    /// Members that could mislead a client: they do not call the cluster fine, or do not know every owner of slots.
    pub fn unsettled(&self) -> impl Iterator<Item = Seen<'a>> {
        let owners = self.owners();
        self.seen.iter().copied().filter(move |seen| {
            let misled = owners
                .iter()
                .any(|(id, slots)| seen.view.knows(id).is_none_or(|peer| peer.slots != *slots));
            !seen.view.cluster_ok || misled
        })
    }

    /// Whether any member that answered follows this node.
    #[must_use]
    pub fn is_followed(&self, id: &NodeId) -> bool {
        self.seen.iter().any(|seen| seen.view.primary() == Some(id))
    }
}
