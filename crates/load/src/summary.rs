//! From what was counted to what is reported.

use std::time::Duration;

use hdrhistogram::Histogram;

use crate::config::{Access, ClientKind, Config, Target};
use crate::gaps::BUCKETS;
use crate::report::{
    GapReport, Latency, LedgerReport, OfferedReport, PreloadReport, ReadReport, Redirected, Report, Verdict,
    WriteReport,
};
use crate::slots::SLOTS;
use crate::stats::Tally;
use crate::topology::{Shard, Topology};

/// How many ranges the slots are divided into when shards cannot be compared.
const RANGES: u16 = 16;

/// What is known besides the counters.
pub(crate) struct Facts {
    pub(crate) started_at_unix_ms: u64,
    pub(crate) duration: Duration,
    pub(crate) preload: Option<PreloadReport>,
    pub(crate) redirects: Redirected,
    pub(crate) before: Topology,
    pub(crate) after: Topology,
    pub(crate) ledger: LedgerReport,
    pub(crate) verdict: Verdict,
}

/// Makes the report.
pub(crate) fn summarize(config: &Config, tally: &Tally, facts: Facts) -> Report {
    let Facts {
        started_at_unix_ms,
        duration,
        preload,
        redirects,
        before,
        after,
        ledger,
        verdict,
    } = facts;
    let gaps = gap_reports(tally, config, &before, &after, duration);
    Report {
        mode: mode(&config.access).to_owned(),
        client: client_name(&config.access).to_owned(),
        prefix: config.prefix.clone(),
        started_at_unix_ms,
        duration_seconds: round(duration.as_secs_f64()),
        preload,
        offered: OfferedReport {
            per_second: config.rate,
            missed: tally.missed,
        },
        writes: WriteReport {
            attempted: tally.writes_attempted,
            acknowledged: tally.writes_acknowledged,
            per_second: per_second(tally.writes_acknowledged, duration),
        },
        reads: ReadReport {
            attempted: tally.reads_attempted,
            acknowledged: tally.reads_answered,
            per_second: per_second(tally.reads_answered, duration),
            stale: tally.stale_reads,
        },
        latency_ms: latency(&tally.write_latency),
        read_latency_ms: (!tally.read_latency.is_empty()).then(|| latency(&tally.read_latency)),
        redirects,
        errors: tally.errors.clone(),
        longest_gap_ms: gaps.iter().map(|gap| gap.ms).fold(0.0, f64::max),
        gaps,
        slots_moved: !before.same_division(&after),
        seconds_below_half_rate: below_half(&tally.seconds, config.rate, duration),
        ledger,
        verdict,
    }
}

fn gap_reports(
    tally: &Tally,
    config: &Config,
    before: &Topology,
    after: &Topology,
    end: Duration,
) -> Vec<GapReport> {
    let report = |shard: &Shard, buckets: &[usize]| {
        let gap = tally.timeline.longest_gap(buckets, end);
        // Turns are spread so that neighbours are less than three times the average apart; with
        // reads in between it is up to six times as measured, and eight to be sure.
        let factor = if config.read_ratio > 0.0 { 8.0 } else { 3.0 };
        let share = f64::from(shard.slot_count()) / f64::from(SLOTS);
        let spacing = if config.rate > 0.0 {
            factor * 1000.0 / (config.rate * share)
        } else {
            0.0
        };
        GapReport {
            shard: shard.primary.clone(),
            slots: shard.slots(),
            ms: round(gap.length.as_secs_f64() * 1000.0),
            at_seconds: round(gap.start.as_secs_f64()),
            open: gap.open,
            resolution_ms: round(spacing.max(tally.timeline.tick().as_secs_f64() * 1000.0)),
        }
    };
    let mut reports: Vec<GapReport> = after
        .shards
        .iter()
        .zip(after.buckets())
        .map(|(shard, buckets)| report(shard, &buckets))
        .collect();
    if !before.same_division(after) {
        let width = SLOTS / RANGES;
        let per_range = BUCKETS / usize::from(RANGES);
        for range in 0..RANGES {
            let shard = Shard {
                primary: "slots".to_owned(),
                ranges: vec![(range * width, range * width + width - 1)],
            };
            let first = usize::from(range) * per_range;
            let buckets: Vec<usize> = (first..first + per_range).collect();
            reports.push(report(&shard, &buckets));
        }
    }
    reports
}

/// Full seconds with less than half of the offered writes.
fn below_half(seconds: &[u32], rate: f64, duration: Duration) -> Option<u64> {
    let full = usize::try_from(duration.as_secs()).unwrap_or(usize::MAX);
    let low = |second: &usize| f64::from(seconds.get(*second).copied().unwrap_or(0)) < rate / 2.0;
    (rate > 0.0).then(|| u64::try_from((0..full).filter(low).count()).unwrap_or(u64::MAX))
}

fn mode(access: &Access) -> &'static str {
    match access.target {
        Target::Cluster(_) => "cluster",
        Target::Primary(_) => "primary",
    }
}

fn client_name(access: &Access) -> &'static str {
    match (&access.target, access.client) {
        (Target::Cluster(_), ClientKind::Library) => "library",
        _ => "direct",
    }
}

fn latency(histogram: &Histogram<u64>) -> Latency {
    Latency {
        p50: milliseconds(histogram.value_at_quantile(0.5)),
        p90: milliseconds(histogram.value_at_quantile(0.9)),
        p99: milliseconds(histogram.value_at_quantile(0.99)),
        p999: milliseconds(histogram.value_at_quantile(0.999)),
        max: milliseconds(histogram.max()),
    }
}

#[expect(clippy::cast_precision_loss, reason = "exact up to 2^53")]
pub(crate) fn milliseconds(microseconds: u64) -> f64 {
    round(microseconds as f64 / 1000.0)
}

#[expect(clippy::cast_precision_loss, reason = "exact up to 2^53")]
pub(crate) fn per_second(count: u64, past: Duration) -> f64 {
    if past.is_zero() {
        0.0
    } else {
        round(count as f64 / past.as_secs_f64())
    }
}

/// Three decimals are all that is known, and what people can read.
pub(crate) fn round(number: f64) -> f64 {
    (number * 1000.0).round() / 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_without_writes_are_below_half() {
        let seconds = [500, 480, 0, 249, 251];
        assert_eq!(below_half(&seconds, 500.0, Duration::from_millis(6900)), Some(3));
        assert_eq!(below_half(&seconds, 0.0, Duration::from_secs(5)), None);
    }
}
