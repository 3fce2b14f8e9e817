//! A run from beginning to end: connect, preload, offer load, verify, report.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::client::Client;
use crate::cluster::Redirects;
use crate::config::{Access, Config};
use crate::errors::OpError;
use crate::ledger::Ledger;
use crate::ledger_file::{self, Saved};
use crate::report::{LedgerReport, PreloadReport, Redirected, Report, Verdict};
use crate::stats::Stats;
use crate::summary::{Facts, milliseconds, per_second, round, summarize};
use crate::topology::Topology;
use crate::value::RunId;
use crate::verify::verify;
use crate::workers::{Shared, offer_load, preload};

/// How often progress is told.
const PROGRESS: Duration = Duration::from_secs(1);
/// How often the ledger is saved while the load runs, in case the process does not live to the end.
const SAVE_EVERY: u64 = 5;

/// Why there is no report.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The settings make no sense.
    #[error("{0}")]
    Config(&'static str),
    /// The store could not be reached at the start.
    #[error("could not connect: {0}")]
    Connect(OpError),
    /// The ledger file could not be written or read.
    #[error("the ledger file: {0}")]
    LedgerFile(std::io::Error),
    /// The latencies cannot be kept.
    #[error("the histogram: {0}")]
    Histogram(#[from] hdrhistogram::CreationError),
}

/// How a run is going.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum Progress {
    /// Keys are being written before the load.
    Preloading {
        /// How many are done.
        keys: u64,
    },
    /// Load is being offered.
    Loading(Moment),
    /// Everything is being read back.
    Verifying {
        /// How many keys there are to read.
        keys: u64,
    },
}

/// The last second of a load.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Moment {
    /// Seconds since the load began.
    pub elapsed_seconds: f64,
    /// Acknowledged writes in the last second.
    pub writes_per_second: f64,
    /// Answered reads in the last second.
    pub reads_per_second: f64,
    /// Errors since the beginning.
    pub errors: u64,
    /// Of the writes of the last second, 99 % were faster than this.
    pub p99_ms: f64,
    /// The longest gap of any shard since the beginning, one that is still open included.
    pub longest_gap_ms: f64,
}

/// Offers load until its time is over or `cancel` is cancelled, verifies and reports.
pub async fn run(config: Config, cancel: CancellationToken) -> Result<Report, Error> {
    run_with_progress(config, cancel, |_| {}).await
}

/// Like [`run`], and tells once a second how it is going.
pub async fn run_with_progress(
    config: Config,
    cancel: CancellationToken,
    mut tell: impl FnMut(Progress) + Send,
) -> Result<Report, Error> {
    if let Some(problem) = config.problem() {
        return Err(Error::Config(problem));
    }
    let redirects = Arc::new(Redirects::default());
    let clients = connect_all(&config, &redirects).await?;
    let before = current_topology(&clients, &config.access)
        .await
        .map_err(Error::Connect)?;
    let ledger = Arc::new(Ledger::new(
        &config.prefix,
        config.keys,
        config.preload,
        config.workers,
    ));
    let shared = Arc::new(Shared {
        run: RunId::generate(),
        ledger,
        clients,
        config,
    });
    let config = &shared.config;

    let preload = if config.preload > 0 {
        Some(run_preload(&shared, &before, &cancel, &mut tell).await?)
    } else {
        None
    };
    let started_at_unix_ms = unix_ms();
    let stats = Arc::new(Stats::new(&before)?);
    let duration = run_load(&shared, &stats, &cancel, &mut tell).await?;

    let saved = snapshot(&shared);
    save_ledger(&shared).await?;
    let after = current_topology(&shared.clients, &config.access).await;
    let after = after.unwrap_or_else(|_| before.clone());
    let (ledger, verdict) = if config.verify {
        tell(Progress::Verifying {
            keys: u64::try_from(saved.promises.entries.len()).unwrap_or(u64::MAX),
        });
        let report = verify(
            &shared.clients,
            saved,
            config.workers,
            config.verify_timeout,
            &after,
        )
        .await;
        let verdict = report.verdict();
        (report, verdict)
    } else {
        (unverified(&saved), Verdict::Skipped)
    };

    let redirects = Redirected {
        moved: redirects.moved.load(Ordering::Relaxed),
        ask: redirects.ask.load(Ordering::Relaxed),
    };
    let facts = Facts {
        started_at_unix_ms,
        duration,
        preload,
        redirects,
        before,
        after,
        ledger,
        verdict,
    };
    Ok(summarize(config, &stats.tally(), facts))
}

/// Verifies a ledger that an earlier run saved.
pub async fn verify_saved(
    access: Access,
    ledger: &std::path::Path,
    patience: Duration,
) -> Result<LedgerReport, Error> {
    let saved = ledger_file::load(ledger).map_err(Error::LedgerFile)?;
    let redirects = Arc::default();
    let client = Client::connect(&access, &redirects)
        .await
        .map_err(Error::Connect)?;
    let clients = [client];
    let topology = current_topology(&clients, &access)
        .await
        .map_err(Error::Connect)?;
    Ok(verify(
        &clients,
        saved,
        Config::new(access.target.clone()).workers,
        patience,
        &topology,
    )
    .await)
}

async fn connect_all(config: &Config, redirects: &Arc<Redirects>) -> Result<Vec<Client>, Error> {
    // WAIT holds up everything behind it on its connection, so each worker gets its own.
    let count = if config.wait_replicas > 0 {
        config.workers
    } else {
        config.access.connections
    };
    let mut clients = Vec::with_capacity(count);
    for _ in 0..count.min(config.workers) {
        clients.push(
            Client::connect(&config.access, redirects)
                .await
                .map_err(Error::Connect)?,
        );
    }
    Ok(clients)
}

async fn current_topology(clients: &[Client], access: &Access) -> Result<Topology, OpError> {
    match clients.first() {
        Some(client) => client.topology(access).await,
        None => Err(OpError::NoNode),
    }
}

async fn run_preload(
    shared: &Arc<Shared>,
    topology: &Topology,
    cancel: &CancellationToken,
    tell: &mut (impl FnMut(Progress) + Send),
) -> Result<PreloadReport, Error> {
    let stats = Arc::new(Stats::new(topology)?);
    let work = preload(shared, &stats, cancel);
    tokio::pin!(work);
    let mut ticks = tokio::time::interval(PROGRESS);
    loop {
        tokio::select! {
            () = &mut work => break,
            _ = ticks.tick() => tell(Progress::Preloading { keys: stats.tally().writes_acknowledged }),
        }
    }
    let tally = stats.tally();
    Ok(PreloadReport {
        keys: tally.writes_acknowledged,
        seconds: round(stats.started().elapsed().as_secs_f64()),
        errors: tally.errors_total(),
    })
}

/// Says for how long load was offered: what was under way at the end is waited for, but that time
/// is not part of it.
async fn run_load(
    shared: &Arc<Shared>,
    stats: &Arc<Stats>,
    cancel: &CancellationToken,
    tell: &mut (impl FnMut(Progress) + Send),
) -> Result<Duration, Error> {
    let stop = cancel.child_token();
    let work = offer_load(shared, stats, &stop);
    tokio::pin!(work);
    let end = shared.config.duration.map(|duration| stats.started() + duration);
    let mut ticks = tokio::time::interval_at(stats.started() + PROGRESS, PROGRESS);
    let mut last = (0, 0, stats.started());
    let mut second = 0;
    let mut offered = None;
    loop {
        tokio::select! {
            () = &mut work => return Ok(offered.unwrap_or_else(|| stats.started().elapsed())),
            () = sleep_until(end), if !stop.is_cancelled() => stop.cancel(),
            () = stop.cancelled(), if offered.is_none() => offered = Some(stats.started().elapsed()),
            _ = ticks.tick(), if offered.is_none() => {
                tell(Progress::Loading(moment(stats, &mut last)));
                second += 1;
                if second % SAVE_EVERY == 0 {
                    save_ledger(shared).await?;
                }
            }
        }
    }
}

async fn sleep_until(end: Option<Instant>) {
    match end {
        Some(end) => tokio::time::sleep_until(end).await,
        None => std::future::pending().await,
    }
}

fn moment(stats: &Stats, last: &mut (u64, u64, Instant)) -> Moment {
    let mut tally = stats.tally();
    let now = Instant::now();
    let past = now.saturating_duration_since(last.2);
    let moment = Moment {
        elapsed_seconds: stats.started().elapsed().as_secs_f64(),
        writes_per_second: per_second(tally.writes_acknowledged - last.0, past),
        reads_per_second: per_second(tally.reads_answered - last.1, past),
        errors: tally.errors_total(),
        p99_ms: milliseconds(tally.window.value_at_quantile(0.99)),
        longest_gap_ms: round(tally.live_gap.longest(now - stats.started()).as_secs_f64() * 1000.0),
    };
    tally.window.reset();
    *last = (tally.writes_acknowledged, tally.reads_answered, now);
    moment
}

fn snapshot(shared: &Shared) -> Saved {
    Saved {
        run: shared.run,
        prefix: shared.config.prefix.clone(),
        promises: shared.ledger.promises(),
    }
}

async fn save_ledger(shared: &Arc<Shared>) -> Result<(), Error> {
    let Some(path) = shared.config.ledger.clone() else {
        return Ok(());
    };
    let shared = Arc::clone(shared);
    let saved = tokio::task::spawn_blocking(move || ledger_file::save(&path, &snapshot(&shared))).await;
    saved
        .unwrap_or_else(|error| Err(std::io::Error::other(error)))
        .map_err(Error::LedgerFile)
}

fn unverified(saved: &Saved) -> LedgerReport {
    LedgerReport {
        keys: u64::try_from(saved.promises.entries.len()).unwrap_or(u64::MAX),
        acknowledged: saved.promises.acknowledged,
        replicated: saved.promises.replicated,
        ..LedgerReport::default()
    }
}

fn unix_ms() -> u64 {
    let now = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap_or_default();
    u64::try_from(now.as_millis()).unwrap_or(u64::MAX)
}
