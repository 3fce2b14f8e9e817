//! What has happened so far: counters, latencies and gaps that all workers add to.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hdrhistogram::{CreationError, Histogram};
use tokio::time::Instant;

use crate::errors::OpError;
use crate::gaps::{LiveGap, Timeline};
use crate::topology::Topology;

/// The highest latency told apart, in microseconds: ten minutes.
const MAX_LATENCY: u64 = 600_000_000;

/// The shared state of a run.
#[derive(Debug)]
pub(crate) struct Stats {
    started: Instant,
    tally: Mutex<Tally>,
}

/// The numbers.
#[derive(Debug)]
pub(crate) struct Tally {
    pub(crate) writes_attempted: u64,
    pub(crate) writes_acknowledged: u64,
    pub(crate) reads_attempted: u64,
    pub(crate) reads_answered: u64,
    pub(crate) stale_reads: u64,
    pub(crate) missed: u64,
    pub(crate) errors: BTreeMap<String, u64>,
    pub(crate) write_latency: Histogram<u64>,
    pub(crate) read_latency: Histogram<u64>,
    /// Write latencies since the last live line.
    pub(crate) window: Histogram<u64>,
    /// Acknowledged writes in each second.
    pub(crate) seconds: Vec<u32>,
    pub(crate) timeline: Timeline,
    pub(crate) live_gap: LiveGap,
}

impl Stats {
    pub(crate) fn new(topology: &Topology) -> Result<Self, CreationError> {
        let tally = Tally {
            writes_attempted: 0,
            writes_acknowledged: 0,
            reads_attempted: 0,
            reads_answered: 0,
            stale_reads: 0,
            missed: 0,
            errors: BTreeMap::new(),
            write_latency: histogram()?,
            read_latency: histogram()?,
            window: histogram()?,
            seconds: Vec::new(),
            timeline: Timeline::default(),
            live_gap: LiveGap::new(topology.owners()),
        };
        Ok(Self {
            started: Instant::now(),
            tally: Mutex::new(tally),
        })
    }

    pub(crate) fn started(&self) -> Instant {
        self.started
    }

    pub(crate) fn tally(&self) -> MutexGuard<'_, Tally> {
        self.tally.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn write_acknowledged(&self, slot: u16, latency: Duration) {
        let mut tally = self.tally();
        // Inside the lock, so that times are recorded in the order they happened.
        let at = self.started.elapsed();
        tally.writes_attempted += 1;
        tally.writes_acknowledged += 1;
        record(&mut tally.write_latency, latency);
        record(&mut tally.window, latency);
        let second = usize::try_from(at.as_secs()).unwrap_or(usize::MAX);
        if tally.seconds.len() <= second {
            tally.seconds.resize(second + 1, 0);
        }
        if let Some(count) = tally.seconds.get_mut(second) {
            *count += 1;
        }
        tally.timeline.record(slot, at);
        tally.live_gap.record(slot, at);
    }

    pub(crate) fn write_failed(&self, error: &OpError) {
        let mut tally = self.tally();
        tally.writes_attempted += 1;
        tally.count_error(error);
    }

    pub(crate) fn read_answered(&self, latency: Duration, stale: bool) {
        let mut tally = self.tally();
        tally.reads_attempted += 1;
        tally.reads_answered += 1;
        tally.stale_reads += u64::from(stale);
        record(&mut tally.read_latency, latency);
    }

    pub(crate) fn read_failed(&self, error: &OpError) {
        let mut tally = self.tally();
        tally.reads_attempted += 1;
        tally.count_error(error);
    }

    pub(crate) fn missed(&self, operations: u64) {
        self.tally().missed += operations;
    }
}

impl Tally {
    fn count_error(&mut self, error: &OpError) {
        let kind = error.kind();
        if let Some(count) = self.errors.get_mut(kind.as_ref()) {
            *count += 1;
        } else {
            self.errors.insert(kind.into_owned(), 1);
        }
    }

    pub(crate) fn errors_total(&self) -> u64 {
        self.errors.values().sum()
    }
}

fn histogram() -> Result<Histogram<u64>, CreationError> {
    Histogram::new_with_bounds(1, MAX_LATENCY, 3)
}

fn record(histogram: &mut Histogram<u64>, latency: Duration) {
    histogram.saturating_record(u64::try_from(latency.as_micros()).unwrap_or(MAX_LATENCY).max(1));
}
