//! The ledger: what the store has promised to keep.
//!
//! Every key has one writer at a time, so its versions only grow. A write whose outcome is unknown
//! (time-out, connection lost) may still arrive *after* a later write of the same key that was
//! acknowledged on another connection, and would then look like a loss. So a failed write retires
//! the key's generation: what was promised for it stays in the ledger and is verified, and the next
//! version goes to a fresh key in the same slot. No write can ever overtake another.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::slots::{SLOTS, slot_of};
use crate::value::key_name;

/// What is known about one key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    /// The number of the key in the key space.
    pub index: u32,
    /// How often writes of this key failed before; part of the key's name.
    pub generation: u32,
    /// The highest version that was sent.
    pub attempted: u32,
    /// The highest version that the store acknowledged; 0 for none.
    pub acknowledged: u32,
    /// The highest version that the asked number of replicas acknowledged (WAIT); 0 for none.
    pub replicated: u32,
}

impl Entry {
    fn new(index: u32) -> Self {
        Self {
            index,
            generation: 0,
            attempted: 0,
            acknowledged: 0,
            replicated: 0,
        }
    }

    /// The name of the key in the store.
    #[must_use]
    pub fn key(&self, prefix: &str) -> String {
        key_name(prefix, self.index, self.generation)
    }
}

/// The keys of one worker: a contiguous range of slots, so that a shard that is down holds up only
/// the workers whose keys it has.
#[derive(Debug, Default)]
pub struct Partition {
    entries: Vec<Entry>,
    slots: Vec<u16>,
    retired: Vec<Entry>,
    hot: usize,
    acknowledged: u64,
    replicated: u64,
}

impl Partition {
    fn push(&mut self, index: u32, slot: u16, hot: bool) {
        self.entries.push(Entry::new(index));
        self.slots.push(slot);
        // Indexes come in rising order and the hot ones are the lowest: they stay in front.
        self.hot += usize::from(hot);
    }

    /// How many keys there are, and how many of them (the first ones) the load keeps writing.
    #[must_use]
    pub fn sizes(&self) -> (usize, usize) {
        (self.entries.len(), self.hot)
    }

    /// The key at a position, and its slot.
    #[must_use]
    pub fn get(&self, position: usize) -> Option<(Entry, u16)> {
        Some((*self.entries.get(position)?, *self.slots.get(position)?))
    }

    /// Notes that the next version of a key is about to be sent, and returns the entry with it.
    pub fn begin(&mut self, position: usize) -> Option<(Entry, u16)> {
        let entry = self.entries.get_mut(position)?;
        entry.attempted = entry.attempted.saturating_add(1);
        Some((*entry, *self.slots.get(position)?))
    }

    /// Notes that the store acknowledged the version last begun.
    pub fn acknowledge(&mut self, position: usize, replicated: bool) {
        if let Some(entry) = self.entries.get_mut(position) {
            entry.acknowledged = entry.attempted;
            self.acknowledged += 1;
            if replicated {
                entry.replicated = entry.attempted;
                self.replicated += 1;
            }
        }
    }

    /// Notes that the version last begun failed or that its outcome is unknown.
    pub fn fail(&mut self, position: usize) {
        if let Some(entry) = self.entries.get_mut(position) {
            if entry.acknowledged > 0 {
                self.retired.push(*entry);
            }
            *entry = Entry {
                generation: entry.generation.saturating_add(1),
                ..Entry::new(entry.index)
            };
        }
    }

    fn promises(&self) -> impl Iterator<Item = Entry> + '_ {
        self.entries
            .iter()
            .chain(&self.retired)
            .filter(|entry| entry.acknowledged > 0)
            .copied()
    }
}

/// All that has to be there in the end.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Promises {
    /// One entry for each key with at least one acknowledged version.
    pub entries: Vec<Entry>,
    /// How many writes were acknowledged.
    pub acknowledged: u64,
    /// How many of these were acknowledged by the asked number of replicas too.
    pub replicated: u64,
}

/// The ledger of a run: one partition per worker.
#[derive(Debug)]
pub struct Ledger {
    partitions: Vec<Mutex<Partition>>,
}

impl Ledger {
    /// A ledger for `keys` keys that the load keeps writing and, when `preload` is more than that,
    /// further keys that are written once.
    #[must_use]
    pub fn new(prefix: &str, keys: u32, preload: u32, workers: usize) -> Self {
        let workers = workers.max(1);
        let mut partitions: Vec<Partition> = (0..workers).map(|_| Partition::default()).collect();
        for index in 0..keys.max(preload) {
            let slot = slot_of(&key_name(prefix, index, 0));
            if let Some(partition) = partitions.get_mut(usize::from(slot) * workers / usize::from(SLOTS)) {
                partition.push(index, slot, index < keys);
            }
        }
        Self {
            partitions: partitions.into_iter().map(Mutex::new).collect(),
        }
    }

    /// The partition of a worker.
    #[must_use]
    pub fn partition(&self, worker: usize) -> Option<MutexGuard<'_, Partition>> {
        self.partitions.get(worker).map(lock)
    }

    /// What has to be in the store now.
    #[must_use]
    pub fn promises(&self) -> Promises {
        let mut promises = Promises::default();
        for partition in &self.partitions {
            let partition = lock(partition);
            promises.entries.extend(partition.promises());
            promises.acknowledged += partition.acknowledged;
            promises.replicated += partition.replicated;
        }
        promises
    }
}

// A panic elsewhere leaves numbers that are still true: they are only ever raised.
fn lock(partition: &Mutex<Partition>) -> MutexGuard<'_, Partition> {
    partition.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one_key() -> Ledger {
        Ledger::new("load", 1, 0, 1)
    }

    #[test]
    fn only_acknowledged_versions_are_promised() {
        let ledger = one_key();
        let mut partition = ledger.partition(0).unwrap();
        assert_eq!(partition.begin(0).unwrap().0.attempted, 1);
        assert_eq!(partition.promises().count(), 0);
        partition.acknowledge(0, false);
        assert_eq!(partition.begin(0).unwrap().0.attempted, 2);
        let promise = partition.promises().next().unwrap();
        assert_eq!(
            (promise.acknowledged, promise.attempted, promise.replicated),
            (1, 2, 0)
        );
    }

    #[test]
    fn a_replicated_version_stays_known_when_later_ones_are_not() {
        let ledger = one_key();
        {
            let mut partition = ledger.partition(0).unwrap();
            for replicated in [true, false] {
                partition.begin(0);
                partition.acknowledge(0, replicated);
            }
        }
        let promises = ledger.promises();
        assert_eq!((promises.acknowledged, promises.replicated), (2, 1));
        assert_eq!(
            (promises.entries[0].acknowledged, promises.entries[0].replicated),
            (2, 1)
        );
    }

    #[test]
    fn an_unknown_outcome_moves_on_to_a_fresh_key_and_keeps_the_promise() {
        let ledger = one_key();
        let mut partition = ledger.partition(0).unwrap();
        partition.begin(0);
        partition.acknowledge(0, false);
        partition.begin(0);
        partition.fail(0);
        let (fresh, _) = partition.begin(0).unwrap();
        assert_eq!((fresh.generation, fresh.attempted, fresh.acknowledged), (1, 1, 0));
        let kept: Vec<Entry> = partition.promises().collect();
        assert_eq!(kept.len(), 1);
        assert_eq!(
            (kept[0].generation, kept[0].acknowledged, kept[0].attempted),
            (0, 1, 2)
        );
    }

    #[test]
    fn failing_for_long_costs_no_memory() {
        let ledger = one_key();
        let mut partition = ledger.partition(0).unwrap();
        for _ in 0..1000 {
            partition.begin(0);
            partition.fail(0);
        }
        assert!(partition.retired.is_empty());
    }

    #[test]
    fn every_key_has_one_worker_and_workers_own_slot_ranges() {
        let ledger = Ledger::new("load", 600, 1000, 8);
        let mut seen = vec![false; 1000];
        let mut hot = 0;
        for worker in 0..8 {
            let partition = ledger.partition(worker).unwrap();
            hot += partition.sizes().1;
            for position in 0..partition.sizes().0 {
                let (entry, slot) = partition.get(position).unwrap();
                assert!(!std::mem::replace(&mut seen[entry.index as usize], true));
                assert_eq!(usize::from(slot) / 2048, worker);
                assert_eq!(entry.index < 600, position < partition.sizes().1);
            }
        }
        assert!(seen.iter().all(|seen| *seen));
        assert_eq!(hot, 600);
    }
}
