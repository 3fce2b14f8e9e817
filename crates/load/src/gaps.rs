//! Write gaps: for how long a shard acknowledged nothing while load was offered.
//!
//! A shard is known for certain only at the end, when slots may have moved and a replica may have
//! taken over. So acknowledgements are kept per slot bucket as a bit per tick of time, and merged
//! into shards when the report is made. The memory is bounded: when a run is long, ticks get
//! longer (1 ms for the first 17 minutes, 2 ms for the next 17, and so on; 8 MiB at most).

use std::time::Duration;

use crate::slots::SLOTS;

/// How many buckets the slots are watched in: 256 slots each.
pub const BUCKETS: usize = 64;
const FIRST_TICK: Duration = Duration::from_millis(1);
const MAX_WORDS: usize = 1 << 14;

/// The bucket of a slot.
#[must_use]
pub fn bucket_of(slot: u16) -> usize {
    usize::from(slot) * BUCKETS / usize::from(SLOTS)
}

/// A time without acknowledged writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Gap {
    /// When the last write before it was acknowledged, from the start of the load.
    pub start: Duration,
    /// How long it lasted.
    pub length: Duration,
    /// It had not ended when the load stopped.
    pub open: bool,
}

/// When writes were acknowledged, per slot bucket.
#[derive(Debug)]
pub struct Timeline {
    tick: Duration,
    max_words: usize,
    buckets: Vec<Vec<u64>>,
}

impl Default for Timeline {
    fn default() -> Self {
        Self::with_capacity(MAX_WORDS)
    }
}

impl Timeline {
    fn with_capacity(max_words: usize) -> Self {
        Self {
            tick: FIRST_TICK,
            max_words,
            buckets: vec![Vec::new(); BUCKETS],
        }
    }

    /// How exactly times are known.
    #[must_use]
    pub fn tick(&self) -> Duration {
        self.tick
    }

    /// Notes that a write in `slot` was acknowledged at `at` from the start of the load.
    pub fn record(&mut self, slot: u16, at: Duration) {
        while self.tick_of(at) / 64 >= self.max_words {
            self.double_tick();
        }
        let tick = self.tick_of(at);
        if let Some(words) = self.buckets.get_mut(bucket_of(slot)) {
            if words.len() <= tick / 64 {
                words.resize(tick / 64 + 1, 0);
            }
            if let Some(word) = words.get_mut(tick / 64) {
                *word |= 1 << (tick % 64);
            }
        }
    }

    /// The longest time without a write in any of `buckets`, from the start of the load to `end`.
    #[must_use]
    pub fn longest_gap(&self, buckets: &[usize], end: Duration) -> Gap {
        let end = self.tick_of(end);
        let mut longest = Gap::default();
        let mut last = 0;
        let mut consider = |from: usize, to: usize, open: bool| {
            let length = self.time_of(to.saturating_sub(from));
            if length > longest.length {
                longest = Gap {
                    start: self.time_of(from),
                    length,
                    open,
                };
            }
        };
        for word in 0..=end / 64 {
            let mut bits = self.merged_word(buckets, word);
            while bits != 0 {
                let tick = word * 64 + bits.trailing_zeros() as usize;
                consider(last, tick, false);
                last = tick;
                bits &= bits - 1;
            }
        }
        consider(last, end, true);
        longest
    }

    fn merged_word(&self, buckets: &[usize], word: usize) -> u64 {
        let words = buckets
            .iter()
            .filter_map(|bucket| self.buckets.get(*bucket)?.get(word));
        words.fold(0, |merged, word| merged | word)
    }

    fn tick_of(&self, at: Duration) -> usize {
        usize::try_from(at.as_nanos() / self.tick.as_nanos().max(1)).unwrap_or(usize::MAX)
    }

    fn time_of(&self, ticks: usize) -> Duration {
        self.tick.saturating_mul(u32::try_from(ticks).unwrap_or(u32::MAX))
    }

    fn double_tick(&mut self) {
        self.tick *= 2;
        for words in &mut self.buckets {
            let halved = words.chunks(2).map(|pair| {
                let low = pair.first().map_or(0, |word| every_second_bit(*word));
                let high = pair.get(1).map_or(0, |word| every_second_bit(*word));
                low | high << 32
            });
            *words = halved.collect();
        }
    }
}

/// Merges neighbouring bits: bit n of the answer is set if bit 2n or 2n+1 was.
fn every_second_bit(word: u64) -> u64 {
    (0..32)
        .filter(|bit| word >> (2 * bit) & 0b11 != 0)
        .fold(0, |merged, bit| merged | 1 << bit)
}

/// The longest gap so far, by the slot map of the start: cheap enough to keep on every write.
#[derive(Debug, Default)]
pub struct LiveGap {
    owners: Vec<u16>,
    last: Vec<Duration>,
    longest: Duration,
}

impl LiveGap {
    /// Watches shards, given for each slot the number of the shard that owns it.
    #[must_use]
    pub fn new(owners: Vec<u16>) -> Self {
        let shards = owners.iter().max().map_or(0, |last| usize::from(*last) + 1);
        Self {
            owners,
            last: vec![Duration::ZERO; shards],
            longest: Duration::ZERO,
        }
    }

    /// Notes an acknowledged write.
    pub fn record(&mut self, slot: u16, at: Duration) {
        let owner = self.owners.get(usize::from(slot));
        if let Some(last) = owner.and_then(|owner| self.last.get_mut(usize::from(*owner))) {
            self.longest = self.longest.max(at.saturating_sub(*last));
            *last = at.max(*last);
        }
    }

    /// The longest gap, one that is still open included.
    #[must_use]
    pub fn longest(&self, now: Duration) -> Duration {
        let open = self.last.iter().map(|last| now.saturating_sub(*last)).max();
        self.longest.max(open.unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(milliseconds: u64) -> Duration {
        Duration::from_millis(milliseconds)
    }

    fn all() -> Vec<usize> {
        (0..BUCKETS).collect()
    }

    #[test]
    fn the_longest_pause_is_found_with_its_place() {
        let mut timeline = Timeline::default();
        for at in (0..1000).chain(1250..2000) {
            timeline.record(0, ms(at));
        }
        let gap = timeline.longest_gap(&all(), ms(2000));
        assert_eq!(
            gap,
            Gap {
                start: ms(999),
                length: ms(251),
                open: false
            }
        );
    }

    #[test]
    fn another_shards_writes_do_not_close_a_gap() {
        let mut timeline = Timeline::default();
        for at in 0..1000 {
            timeline.record(0, ms(at));
            if !(300..700).contains(&at) {
                timeline.record(16383, ms(at));
            }
        }
        assert_eq!(timeline.longest_gap(&[0], ms(1000)).length, ms(1));
        assert_eq!(timeline.longest_gap(&[63], ms(1000)).length, ms(401));
        assert_eq!(timeline.longest_gap(&[0, 63], ms(1000)).length, ms(1));
    }

    #[test]
    fn an_outage_that_does_not_end_counts_to_the_end() {
        let mut timeline = Timeline::default();
        timeline.record(0, ms(10));
        timeline.record(0, ms(100));
        let gap = timeline.longest_gap(&all(), ms(5000));
        assert_eq!(
            gap,
            Gap {
                start: ms(100),
                length: ms(4900),
                open: true
            }
        );
    }

    #[test]
    fn a_shard_that_never_answered_has_one_gap_over_everything() {
        let gap = Timeline::default().longest_gap(&all(), ms(3000));
        assert_eq!(
            gap,
            Gap {
                start: ms(0),
                length: ms(3000),
                open: true
            }
        );
    }

    #[test]
    fn a_long_run_gets_coarser_and_not_bigger() {
        let mut timeline = Timeline::with_capacity(2);
        for at in (0..100).chain(400..1000) {
            timeline.record(0, ms(at));
        }
        assert_eq!(timeline.tick(), ms(8));
        assert!(timeline.buckets.iter().all(|words| words.len() <= 2));
        let gap = timeline.longest_gap(&all(), ms(1000));
        assert_eq!((gap.start, gap.length), (ms(96), ms(304)));
    }

    #[test]
    fn the_live_gap_sees_an_outage_before_it_ends() {
        let mut owners = vec![0; 8192];
        owners.extend(vec![1; 8192]);
        let mut live = LiveGap::new(owners);
        for at in 0..500 {
            live.record(0, ms(at));
            if at < 100 {
                live.record(16000, ms(at));
            }
        }
        assert_eq!(live.longest(ms(500)), ms(401));
        live.record(16000, ms(600));
        assert_eq!(live.longest(ms(600)), ms(501));
    }
}
