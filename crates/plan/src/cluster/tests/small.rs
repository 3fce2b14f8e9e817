//! A small world: pods with a process in each, in which plans are carried out as real nodes would.

use std::net::{IpAddr, Ipv4Addr};

use jiff::Timestamp;

use super::super::{Member, Observed, Plan, Step, Wish, World};
use crate::action::Action;
use crate::check::Violation;
use crate::node::{Following, Health, NodeId, NodeView, Peer};
use crate::slots::SlotSet;

pub(super) fn id(number: u32) -> NodeId {
    NodeId::parse(&format!("{number:040x}")).unwrap()
}

pub(super) fn ip(number: u32) -> IpAddr {
    IpAddr::V4(Ipv4Addr::from(0x0a00_0000 + number))
}

pub(super) fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_000_000 + seconds).unwrap()
}

/// The plan for what was observed.
pub(super) fn plan(wish: Wish, observed: &Observed, now: Timestamp) -> Plan {
    super::super::plan(wish, &World::new(observed), now)
}

/// Whether that plan keeps the rules.
pub(super) fn check(plan: &Plan, observed: &Observed) -> Result<(), Violation> {
    crate::check::check(plan, &World::new(observed))
}

/// One process in the small world.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) id: u32,
    pub(super) epoch: u64,
    pub(super) slots: SlotSet,
    pub(super) primary: Option<u32>,
    pub(super) keys: u64,
    /// Ids this node has been introduced to.
    pub(super) knows: Vec<u32>,
}

/// Six pods with a process in each; what is done to one is known to all whom it knows at once.
#[derive(Clone, Debug)]
pub(super) struct Small {
    pub(super) pods: Vec<Option<Node>>,
    /// Processes that are gone but whose claims the others remember.
    pub(super) dead: Vec<Node>,
    next_id: u32,
}

impl Small {
    pub(super) fn new(wish: Wish) -> Self {
        let mut small = Self {
            pods: Vec::new(),
            dead: Vec::new(),
            next_id: 1,
        };
        for _ in 0..wish.pods() {
            let node = small.fresh();
            small.pods.push(Some(node));
        }
        small
    }

    pub(super) fn fresh(&mut self) -> Node {
        let id = self.next_id;
        self.next_id += 1;
        Node {
            id,
            epoch: 0,
            slots: SlotSet::empty(),
            primary: None,
            keys: 0,
            knows: Vec::new(),
        }
    }

    /// The process of a pod ends and a new one without data takes its place.
    pub(super) fn restart(&mut self, pod: usize) {
        let new = self.fresh();
        if let Some(old) = self.pods[pod].replace(new) {
            self.dead.push(old);
        }
    }

    fn find(&self, id: u32) -> Option<&Node> {
        self.pods
            .iter()
            .flatten()
            .chain(&self.dead)
            .find(|node| node.id == id)
    }

    fn view(&self, node: &Node) -> NodeView {
        let line = |other: &Node, myself: bool| {
            let pod = self
                .pods
                .iter()
                .position(|pod| pod.as_ref().is_some_and(|there| there.id == other.id));
            Peer {
                id: id(other.id),
                ip: pod.map(|pod| ip(u32::try_from(pod).unwrap())),
                name: None,
                myself,
                primary: other.primary.map(id),
                health: if pod.is_some() {
                    Health::Fine
                } else {
                    Health::Failed
                },
                handshake: false,
                epoch: other.epoch,
                slots: other.slots.clone(),
                open: Vec::new(),
            }
        };
        let mut peers = vec![line(node, true)];
        peers.extend(
            node.knows
                .iter()
                .filter_map(|known| self.find(*known))
                .map(|other| line(other, false)),
        );
        let covered = self
            .pods
            .iter()
            .flatten()
            .fold(SlotSet::empty(), |all, node| all.union(&node.slots));
        let link_up = node
            .primary
            .is_some_and(|primary| self.pods.iter().flatten().any(|pod| pod.id == primary));
        NodeView {
            id: id(node.id),
            engine: "valkey 9.1.2".to_owned(),
            follows: node.primary.map(|_| Following {
                link_up,
                syncing: false,
            }),
            offset: u64::from(node.id),
            keys: node.keys,
            loading: false,
            cluster_ok: covered == SlotSet::all(),
            epoch: node.epoch,
            peers,
        }
    }

    pub(super) fn observe(&self, wish: Wish) -> Observed {
        let members = self.pods.iter().enumerate().map(|(index, node)| {
            let number = u32::try_from(index).unwrap();
            Member {
                pod: format!(
                    "shop-{}-{}",
                    number / wish.members_per_shard,
                    number % wish.members_per_shard
                ),
                shard: number / wish.members_per_shard,
                ip: Some(ip(number)),
                node: format!("node-{}", number % 2),
                created: Some(at(0)),
                started: true,
                terminating: false,
                trouble: None,
                old_template: false,
                view: node
                    .as_ref()
                    .map(|node| self.view(node))
                    .ok_or_else(|| "refused".to_owned()),
            }
        });
        Observed {
            members: members.collect(),
        }
    }

    pub(super) fn act(&mut self, step: &Step) {
        let pod = self
            .pods
            .iter()
            .position(|node| node.as_ref().is_some_and(|node| id(node.id) == step.id))
            .unwrap();
        let mut node = self.pods[pod].take().unwrap();
        match &step.action {
            Action::SetConfigEpoch(epoch) => node.epoch = *epoch,
            Action::AddSlots(slots) => node.slots = node.slots.union(slots),
            Action::Replicate(primary) => node.primary = self.number(primary),
            Action::Forget(gone) => {
                let gone = self.number(gone);
                node.knows.retain(|known| Some(*known) != gone);
            }
            Action::FailoverForce => {
                let old = node.primary.take().unwrap();
                let claim = self.dead.iter_mut().find(|dead| dead.id == old).unwrap();
                node.slots = std::mem::take(&mut claim.slots);
            }
            Action::Meet { ip: other, .. } => {
                // Whoever is met learns of everybody the other knows, and the other way round.
                let other = self
                    .pods
                    .iter()
                    .flatten()
                    .find(|there| self.place(there.id) == Some(*other))
                    .unwrap();
                let mut circle: Vec<u32> = node.knows.iter().chain(&other.knows).copied().collect();
                circle.extend([node.id, other.id]);
                circle.sort_unstable();
                circle.dedup();
                for there in self.pods.iter_mut().flatten().chain([&mut node]) {
                    if circle.contains(&there.id) {
                        there.knows = circle
                            .iter()
                            .copied()
                            .filter(|known| *known != there.id)
                            .collect();
                    }
                }
            }
        }
        self.pods[pod] = Some(node);
    }

    fn number(&self, wanted: &NodeId) -> Option<u32> {
        (1..self.next_id).find(|number| id(*number) == *wanted)
    }

    fn place(&self, wanted: u32) -> Option<IpAddr> {
        let pod = self
            .pods
            .iter()
            .position(|node| node.as_ref().is_some_and(|node| node.id == wanted))?;
        Some(ip(u32::try_from(pod).unwrap()))
    }

    /// Plans and acts until nothing is left, checking every plan. `interrupt` cuts a plan short, as a crash would.
    pub(super) fn settle(&mut self, wish: Wish, mut interrupt: impl FnMut(usize) -> usize) -> usize {
        for pass in 0..60 {
            let observed = self.observe(wish);
            let plan = plan(wish, &observed, at(1));
            if plan.is_done() {
                return pass;
            }
            check(&plan, &observed).unwrap();
            let cut = interrupt(plan.steps.len());
            for step in plan.steps.iter().take(cut) {
                self.act(step);
            }
        }
        panic!("no end in sight: {:#?}", plan(wish, &self.observe(wish), at(1)));
    }
}
