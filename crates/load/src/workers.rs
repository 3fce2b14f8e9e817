//! The workers: each writes its own keys in turn, at its share of the rate.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::client::Client;
use crate::config::Config;
use crate::errors::OpError;
use crate::ledger::{Entry, Ledger};
use crate::operation::{Answer, Operation, Wait};
use crate::stats::Stats;
use crate::value::{Decoded, RunId, decode, encode};

/// After an error at full speed, so that a refused connection does not become a busy loop.
const ERROR_PAUSE: Duration = Duration::from_millis(5);

/// A worker that falls behind by more than this gives up the operations it is late for: load that
/// was not offered must not come as a burst later.
const MAX_BACKLOG: Duration = Duration::from_millis(100);

/// Everything that workers share.
pub(crate) struct Shared {
    pub(crate) config: Config,
    pub(crate) run: RunId,
    pub(crate) ledger: Arc<Ledger>,
    pub(crate) clients: Vec<Client>,
}

impl Shared {
    /// The client of a worker.
    pub(crate) fn client(&self, worker: usize) -> Option<&Client> {
        self.clients.get(worker % self.clients.len().max(1))
    }
}

/// Offers load until cancelled, then lets what is under way finish.
pub(crate) async fn offer_load(shared: &Arc<Shared>, stats: &Arc<Stats>, cancel: &CancellationToken) {
    let hot = |worker: &usize| {
        shared
            .ledger
            .partition(*worker)
            .is_some_and(|keys| keys.sizes().1 > 0)
    };
    let active: Vec<usize> = (0..shared.config.workers).filter(hot).collect();
    let mut tasks = JoinSet::new();
    for (turn, number) in active.iter().copied().enumerate() {
        let pacer = Pacer::new(&shared.config, stats.started(), turn, active.len());
        let task = Worker {
            shared: Arc::clone(shared),
            stats: Arc::clone(stats),
            number,
        };
        tasks.spawn(task.offer(pacer, cancel.clone()));
    }
    while tasks.join_next().await.is_some() {}
}

/// Writes the first keys once, as fast as the store takes them; keys that fail are tried again.
pub(crate) async fn preload(shared: &Arc<Shared>, stats: &Arc<Stats>, cancel: &CancellationToken) {
    let mut tasks = JoinSet::new();
    for number in 0..shared.config.workers {
        let task = Worker {
            shared: Arc::clone(shared),
            stats: Arc::clone(stats),
            number,
        };
        tasks.spawn(task.preload(cancel.clone()));
    }
    while tasks.join_next().await.is_some() {}
}

struct Worker {
    shared: Arc<Shared>,
    stats: Arc<Stats>,
    number: usize,
}

impl Worker {
    async fn offer(self, mut pacer: Pacer, cancel: CancellationToken) {
        let Some(client) = self.shared.client(self.number) else {
            return;
        };
        let hot = self
            .shared
            .ledger
            .partition(self.number)
            .map_or(0, |keys| keys.sizes().1);
        // Each starts at another point between two reads, or all would write and read in turns.
        let mut reads_due = (as_f64(self.number) * 0.754_877_666_25).fract();
        let mut written = 0;
        let mut next = 0;
        while pacer.wait(&cancel, &self.stats).await {
            reads_due += self.shared.config.read_ratio;
            let done = if reads_due >= 1.0 {
                reads_due -= 1.0;
                self.read(client, written).await
            } else {
                written = next;
                next = (next + 1) % hot.max(1);
                self.write(client, written).await
            };
            if !done && pacer.interval.is_zero() {
                tokio::time::sleep(ERROR_PAUSE).await;
            }
        }
    }

    async fn preload(self, cancel: CancellationToken) {
        let Some(client) = self.shared.client(self.number) else {
            return;
        };
        let keys = self
            .shared
            .ledger
            .partition(self.number)
            .map_or(0, |keys| keys.sizes().0);
        for position in 0..keys {
            let entry = self
                .shared
                .ledger
                .partition(self.number)
                .and_then(|keys| keys.get(position));
            if entry.is_none_or(|(entry, _)| entry.index >= self.shared.config.preload) {
                continue;
            }
            while !cancel.is_cancelled() && !self.write(client, position).await {
                tokio::time::sleep(ERROR_PAUSE).await;
            }
        }
    }

    async fn write(&self, client: &Client, position: usize) -> bool {
        let begun = self
            .shared
            .ledger
            .partition(self.number)
            .and_then(|mut keys| keys.begin(position));
        let Some((entry, slot)) = begun else { return false };
        let operation = self.write_operation(&entry);
        let sent = Instant::now();
        let result = client.run(slot, &operation).await;
        let Some(mut keys) = self.shared.ledger.partition(self.number) else {
            return false;
        };
        match result {
            Ok(answer) => {
                keys.acknowledge(position, answer == Answer::Written { replicated: true });
                drop(keys);
                self.stats.write_acknowledged(slot, sent.elapsed());
                true
            }
            Err(error) => {
                keys.fail(position);
                drop(keys);
                self.stats.write_failed(&error);
                false
            }
        }
    }

    fn write_operation(&self, entry: &Entry) -> Operation {
        let Config {
            value_size,
            wait_replicas,
            prefix,
            access,
            ..
        } = &self.shared.config;
        let key = entry.key(prefix);
        let value = encode(self.shared.run, &key, entry.attempted, *value_size);
        // Half of the time: an answer that says "not yet" is worth more than a time-out, after
        // which even the write itself is in doubt.
        let milliseconds = u64::try_from(access.timeout.as_millis() / 2)
            .unwrap_or(u64::MAX)
            .max(1);
        let wait = (*wait_replicas > 0).then_some(Wait {
            replicas: *wait_replicas,
            milliseconds,
        });
        Operation::Write { key, value, wait }
    }

    async fn read(&self, client: &Client, position: usize) -> bool {
        let found = self
            .shared
            .ledger
            .partition(self.number)
            .and_then(|keys| keys.get(position));
        let Some((entry, slot)) = found else { return false };
        let sent = Instant::now();
        match read_version(client, &self.shared.config.prefix, self.shared.run, &entry, slot).await {
            Ok(version) => {
                let stale = version.is_none_or(|version| version < entry.acknowledged);
                self.stats
                    .read_answered(sent.elapsed(), stale && entry.acknowledged > 0);
                true
            }
            Err(error) => {
                self.stats.read_failed(&error);
                false
            }
        }
    }
}

async fn read_version(
    client: &Client,
    prefix: &str,
    run: RunId,
    entry: &Entry,
    slot: u16,
) -> Result<Option<u32>, OpError> {
    let key = entry.key(prefix);
    let answer = client.run(slot, &Operation::Read { key: key.clone() }).await?;
    let Answer::Value(Some(value)) = answer else {
        return Ok(None);
    };
    match decode(run, &key, &value) {
        Decoded::Ours { version } => Ok(Some(version)),
        Decoded::Foreign | Decoded::Corrupt => Ok(None),
    }
}

/// When a worker's next operation is due.
struct Pacer {
    due: Instant,
    /// Zero for as fast as possible.
    interval: Duration,
}

impl Pacer {
    fn new(config: &Config, start: Instant, number: usize, workers: usize) -> Self {
        if config.rate == 0.0 {
            return Self {
                due: start,
                interval: Duration::ZERO,
            };
        }
        let operations = config.rate / (1.0 - config.read_ratio);
        let interval = Duration::from_secs_f64(as_f64(workers) / operations);
        // Workers with neighbouring slots belong to one shard: the golden ratio spreads their
        // turns, so that every shard sees an even stream and not a burst and a pause.
        let phase = (as_f64(number) * 0.618_033_988_75).fract();
        Self {
            due: start + interval.mul_f64(phase),
            interval,
        }
    }

    /// Waits for the next turn; false when there is none any more.
    async fn wait(&mut self, cancel: &CancellationToken, stats: &Stats) -> bool {
        if self.interval.is_zero() {
            // At full speed a worker would otherwise never let the cancellation be seen.
            return !cancel.is_cancelled();
        }
        let missed = self.catch_up(Instant::now());
        if missed > 0 {
            stats.missed(missed);
        }
        tokio::select! {
            biased;
            () = cancel.cancelled() => return false,
            () = tokio::time::sleep_until(self.due) => {}
        }
        self.due += self.interval;
        true
    }

    /// Gives up the turns that are too late, and says how many.
    fn catch_up(&mut self, now: Instant) -> u64 {
        let behind = now.saturating_duration_since(self.due);
        if behind <= MAX_BACKLOG.max(self.interval) {
            return 0;
        }
        let turns = u32::try_from(behind.as_nanos() / self.interval.as_nanos().max(1)).unwrap_or(u32::MAX);
        self.due += self.interval.saturating_mul(turns);
        u64::from(turns)
    }
}

#[expect(clippy::cast_precision_loss, reason = "a number of workers is small")]
fn as_f64(number: usize) -> f64 {
    number as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Target;

    fn config(rate: f64, read_ratio: f64) -> Config {
        Config {
            rate,
            read_ratio,
            ..Config::new(Target::Primary("localhost:1".into()))
        }
    }

    #[test]
    fn workers_share_the_rate() {
        let start = Instant::now();
        assert_eq!(
            Pacer::new(&config(500.0, 0.0), start, 0, 64).interval,
            Duration::from_millis(128)
        );
        assert_eq!(
            Pacer::new(&config(500.0, 0.5), start, 0, 64).interval,
            Duration::from_millis(64)
        );
        assert!(Pacer::new(&config(0.0, 0.0), start, 0, 64).interval.is_zero());
    }

    #[test]
    fn neighbours_do_not_write_at_the_same_time() {
        let start = Instant::now();
        let pacers = (0..21).map(|number| Pacer::new(&config(500.0, 0.0), start, number, 64).due - start);
        let mut due: Vec<Duration> = pacers.collect();
        due.sort_unstable();
        let even = Duration::from_millis(128) / 21;
        for pair in due.windows(2) {
            assert!(pair[1] < pair[0] + even * 3, "{pair:?}");
        }
    }

    #[test]
    fn a_late_worker_does_not_make_up_for_it_in_a_burst() {
        let start = Instant::now();
        let mut pacer = Pacer {
            due: start,
            interval: Duration::from_millis(10),
        };
        assert_eq!(pacer.catch_up(start + Duration::from_millis(90)), 0);
        assert_eq!(pacer.catch_up(start + Duration::from_secs(1)), 100);
        assert_eq!(pacer.due, start + Duration::from_secs(1));
    }
}
