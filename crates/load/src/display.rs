//! What people see: the live line and the summary, as text. Nothing here prints.

use std::fmt::Write as _;

use crate::report::{Latency, LedgerReport, LossReason, LostKey, Report, Verdict};
use crate::run::Progress;

/// How many shards the summary names; the JSON document has all.
const MOST_GAPS: usize = 8;

/// One line that says how it is going; at most 100 columns.
#[must_use]
pub fn live_line(progress: &Progress) -> String {
    match progress {
        Progress::Preloading { keys } => format!("preloading: {keys} keys written"),
        Progress::Verifying { keys } => format!("verifying: reading {keys} keys back"),
        Progress::Loading(now) => format!(
            "{:>5.0} s  {:>6.0} writes/s  {:>6.0} reads/s  {:>5} errors  p99 {:>7.2} ms  longest gap {:>5.0} ms",
            now.elapsed_seconds,
            now.writes_per_second,
            now.reads_per_second,
            now.errors,
            now.p99_ms,
            now.longest_gap_ms,
        ),
    }
}

/// The summary of a run; lines of at most 100 columns, the verdict last.
#[must_use]
pub fn summary(report: &Report) -> String {
    let mut text = String::new();
    let mut line = |name: &str, value: String| {
        let _ = writeln!(text, "{name:<10} {value}");
    };
    let client = if report.client == "library" {
        ", the redis crate's own client"
    } else {
        ""
    };
    line(
        "target",
        format!(
            "{}{client}, {:.1} s of load",
            report.mode, report.duration_seconds
        ),
    );
    if let Some(preload) = &report.preload {
        line(
            "preload",
            format!(
                "{} keys in {:.1} s, {} errors",
                preload.keys, preload.seconds, preload.errors
            ),
        );
    }
    line("writes", writes(report));
    if report.reads.attempted > 0 {
        let reads = &report.reads;
        let stale = format!("{} older than acknowledged", reads.stale);
        line(
            "reads",
            format!(
                "{} answered of {}, {:.0}/s, {stale}",
                reads.acknowledged, reads.attempted, reads.per_second
            ),
        );
    }
    line("latency", latency(&report.latency_ms));
    line("redirects", redirects(report));
    line("errors", errors(report));
    for (number, gap) in gaps(report).into_iter().enumerate() {
        line(if number == 0 { "gaps" } else { "" }, gap);
    }
    if let Some(seconds) = report.seconds_below_half_rate {
        line(
            "",
            format!("{seconds} s with less than half of the offered writes"),
        );
    }
    text.push_str(&findings(&report.ledger, report.verdict));
    text
}

/// What a verification found, the verdict last.
#[must_use]
pub fn findings(ledger: &LedgerReport, verdict: Verdict) -> String {
    let mut text = String::new();
    for (number, sample) in ledger.samples.iter().enumerate() {
        let name = if number == 0 { "lost" } else { "" };
        let _ = writeln!(text, "{name:<10} {}", shorten(&lost_key(sample), 100 - 11));
    }
    let _ = writeln!(text, "{}", verdict_line(ledger, verdict));
    text
}

fn writes(report: &Report) -> String {
    let writes = &report.writes;
    let mut text = format!(
        "{} acknowledged of {}, {:.0}/s",
        writes.acknowledged, writes.attempted, writes.per_second
    );
    if report.offered.per_second > 0.0 {
        let _ = write!(
            text,
            " of {:.0}/s offered, {} not sent in time",
            report.offered.per_second, report.offered.missed
        );
    }
    if report.ledger.replicated > 0 {
        let _ = write!(text, ", {} replicated", report.ledger.replicated);
    }
    text
}

fn latency(latency: &Latency) -> String {
    let Latency {
        p50,
        p90,
        p99,
        p999,
        max,
    } = latency;
    format!("p50 {p50:.2}  p90 {p90:.2}  p99 {p99:.2}  p99.9 {p999:.2}  max {max:.2} ms")
}

fn redirects(report: &Report) -> String {
    if report.client == "library" {
        "not told by this client".to_owned()
    } else {
        format!(
            "{} MOVED, {} ASK followed",
            report.redirects.moved, report.redirects.ask
        )
    }
}

fn errors(report: &Report) -> String {
    if report.errors.is_empty() {
        return "none".to_owned();
    }
    let kinds = report
        .errors
        .iter()
        .map(|(kind, count)| format!("{kind} {count}"));
    wrap(kinds, 86, "\n           ")
}

fn gaps(report: &Report) -> Vec<String> {
    let mut gaps: Vec<_> = report.gaps.iter().collect();
    gaps.sort_by(|a, b| b.ms.total_cmp(&a.ms));
    let mut lines: Vec<String> = gaps
        .iter()
        .take(MOST_GAPS)
        .map(|gap| {
            let end = if gap.open { ", not over yet" } else { "" };
            let meaning = if gap.ms <= gap.resolution_ms {
                " (pacing)"
            } else {
                ""
            };
            let when = format!("{:>7.0} ms{meaning} at {:.1} s{end}", gap.ms, gap.at_seconds);
            shorten(&format!("{when} on {} {}", gap.shard, gap.slots), 100 - 11)
        })
        .collect();
    if gaps.len() > MOST_GAPS {
        lines.push(format!("        and {} shorter ones", gaps.len() - MOST_GAPS));
    }
    lines
}

fn lost_key(sample: &LostKey) -> String {
    let what = match (sample.reason, sample.found) {
        (LossReason::Missing, _) => "is missing".to_owned(),
        (LossReason::Foreign, _) => "holds another run's value".to_owned(),
        (LossReason::Corrupt, _) => "is damaged".to_owned(),
        (LossReason::Older, found) => format!("is at version {}", found.unwrap_or_default()),
    };
    let shard = sample.shard.as_deref().unwrap_or("nobody");
    let replicated = if sample.replicated { ", replicated" } else { "" };
    let LostKey {
        key,
        slot,
        acknowledged,
        ..
    } = sample;
    format!("{key} {what}, acknowledged {acknowledged}{replicated}; slot {slot} of {shard}")
}

fn verdict_line(ledger: &LedgerReport, verdict: Verdict) -> String {
    let LedgerReport {
        keys,
        acknowledged,
        lost,
        lost_replicated,
        corrupt,
        unreadable,
        ..
    } = ledger;
    match verdict {
        Verdict::Verified => format!("verified: {acknowledged} acknowledged writes on {keys} keys, 0 lost"),
        Verdict::Lost => format!(
            "LOST: {lost} of {keys} keys ({lost_replicated} replicated, {} not), {corrupt} damaged, {unreadable} unreadable",
            lost - lost_replicated.min(lost),
        ),
        Verdict::Unproven => {
            format!("NOT PROVEN: {unreadable} of {keys} keys could not be read, 0 known lost")
        }
        Verdict::Skipped => format!("not verified: {acknowledged} acknowledged writes on {keys} keys"),
    }
}

fn wrap(words: impl Iterator<Item = String>, width: usize, separator: &str) -> String {
    let mut text = String::new();
    let mut column = 0;
    for word in words {
        if column > 0 && column + 2 + word.len() > width {
            text.push_str(separator);
            column = 0;
        } else if column > 0 {
            text.push_str(", ");
            column += 2;
        }
        column += word.len();
        text.push_str(&word);
    }
    text
}

fn shorten(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        text.to_owned()
    } else {
        format!("{}…", text.chars().take(width - 1).collect::<String>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{GapReport, OfferedReport, ReadReport, Redirected, WriteReport};
    use crate::run::Moment;

    fn report() -> Report {
        let gap = |shard: &str, slots: &str, ms: f64| GapReport {
            shard: shard.into(),
            slots: slots.into(),
            ms,
            at_seconds: 12.345,
            open: false,
            resolution_ms: 18.0,
        };
        Report {
            mode: "cluster".into(),
            client: "direct".into(),
            prefix: "load".into(),
            started_at_unix_ms: 1_700_000_000_000,
            duration_seconds: 30.01,
            preload: None,
            offered: OfferedReport {
                per_second: 500.0,
                missed: 7,
            },
            writes: WriteReport {
                attempted: 15_000,
                acknowledged: 14_990,
                per_second: 499.6,
            },
            reads: ReadReport::default(),
            latency_ms: Latency {
                p50: 0.21,
                p90: 0.4,
                p99: 1.5,
                p999: 12.0,
                max: 88.1,
            },
            read_latency_ms: None,
            redirects: Redirected { moved: 3, ask: 0 },
            errors: [
                ("connection-lost".to_owned(), 8),
                ("connection-refused".to_owned(), 2),
            ]
            .into(),
            gaps: vec![
                gap("127.0.0.1:7000", "0-5460", 12.0),
                gap(
                    "foreshard-sample-shard-2-pod-0.foreshard.svc:6379",
                    &"5461-5470,".repeat(9),
                    812.0,
                ),
            ],
            longest_gap_ms: 812.0,
            slots_moved: false,
            seconds_below_half_rate: Some(1),
            ledger: LedgerReport {
                keys: 10_000,
                acknowledged: 14_990,
                ..LedgerReport::default()
            },
            verdict: Verdict::Verified,
        }
    }

    #[test]
    fn the_summary_ends_with_the_verdict() {
        let expected = "\
target     cluster, 30.0 s of load
writes     14990 acknowledged of 15000, 500/s of 500/s offered, 7 not sent in time
latency    p50 0.21  p90 0.40  p99 1.50  p99.9 12.00  max 88.10 ms
redirects  3 MOVED, 0 ASK followed
errors     connection-lost 8, connection-refused 2
gaps           812 ms at 12.3 s on foreshard-sample-shard-2-pod-0.foreshard.svc:6379 5461-5470,5461…
                12 ms (pacing) at 12.3 s on 127.0.0.1:7000 0-5460
           1 s with less than half of the offered writes
verified: 14990 acknowledged writes on 10000 keys, 0 lost
";
        assert_eq!(summary(&report()), expected);
    }

    #[test]
    fn losses_are_named_and_counted_by_kind() {
        let sample = |reason, found, replicated| LostKey {
            key: "load:{17}".into(),
            slot: 4711,
            shard: Some("127.0.0.1:7000".into()),
            reason,
            acknowledged: 9,
            found,
            replicated,
        };
        let ledger = LedgerReport {
            keys: 10,
            lost: 2,
            lost_replicated: 1,
            samples: vec![
                sample(LossReason::Older, Some(4), true),
                sample(LossReason::Missing, None, false),
            ],
            ..LedgerReport::default()
        };
        assert_eq!(
            findings(&ledger, ledger.verdict()),
            "\
lost       load:{17} is at version 4, acknowledged 9, replicated; slot 4711 of 127.0.0.1:7000
           load:{17} is missing, acknowledged 9; slot 4711 of 127.0.0.1:7000
LOST: 2 of 10 keys (1 replicated, 1 not), 0 damaged, 0 unreadable
"
        );
    }

    #[test]
    fn ordinary_output_fits_100_columns() {
        let moment = Moment {
            elapsed_seconds: 86_400.0,
            writes_per_second: 123_456.0,
            reads_per_second: 123_456.0,
            errors: 123_456,
            p99_ms: 1000.25,
            longest_gap_ms: 60_000.0,
        };
        assert!(live_line(&Progress::Loading(moment)).chars().count() <= 100);
        let mut many = report();
        many.errors = (0..20).map(|kind| (format!("other:kind-{kind}"), 1000)).collect();
        for line in summary(&many).lines() {
            assert!(line.chars().count() <= 100, "{line}");
        }
    }

    #[test]
    fn the_json_document_keeps_its_names() {
        let json = serde_json::to_value(report()).unwrap();
        for path in [
            "/mode",
            "/durationSeconds",
            "/writes/acknowledged",
            "/writes/attempted",
            "/writes/perSecond",
            "/reads/stale",
            "/latencyMs/p999",
            "/errors/connection-lost",
            "/gaps/0/atSeconds",
            "/longestGapMs",
            "/ledger/lostReplicated",
            "/ledger/samples",
        ] {
            assert!(json.pointer(path).is_some(), "{path}");
        }
        assert_eq!(json["verdict"], "verified");
        assert_eq!(serde_json::from_value::<Report>(json).unwrap(), report());
    }
}
