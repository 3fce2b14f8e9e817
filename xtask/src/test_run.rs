//! The whole test run: `make test`.
//!
//! Each stage is a target of the Makefile, so that it can be run alone and does exactly the same then. A check of
//! `make lint` counts as one test. A stage that breaks without a failed test (it does not compile, the cluster does
//! not come up), or that ends well without a single test, counts as one failed test: the last line never says
//! "0 failed" of a run that failed, and tests do not pass by not being there.

use std::path::Path;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use anyhow::Result;

use crate::command::{command, stream};
use crate::count::{Count, Source};

/// In the order they run: what is quick and finds most comes first.
const STAGES: &[Stage] = &[
    Stage {
        target: "lint",
        source: Source::Summary,
    },
    Stage {
        target: "unit",
        source: Source::CargoTest,
    },
    Stage {
        target: "engine-test",
        source: Source::CargoTest,
    },
    Stage {
        target: "e2e",
        source: Source::Summary,
    },
];

struct Stage {
    target: &'static str,
    source: Source,
}

/// How a stage went.
struct Outcome {
    count: Count,
    good: bool,
    time: Duration,
}

/// Runs the stages up to the first that fails; says whether all were good.
pub fn run(root: &Path) -> Result<bool> {
    let mut outcomes = Vec::new();
    for stage in STAGES {
        println!("\n=== make {} ===", stage.target);
        let outcome = run_stage(root, stage)?;
        let good = outcome.good;
        outcomes.push(outcome);
        if !good {
            break;
        }
    }
    print!("\n{}", table(STAGES, &outcomes));
    let mut total = Count::default();
    for outcome in &outcomes {
        total += outcome.count;
    }
    println!("{total}");
    Ok(outcomes.iter().all(|outcome| outcome.good))
}

fn run_stage(root: &Path, stage: &Stage) -> Result<Outcome> {
    let start = Instant::now();
    let mut seen = Count::default();
    let status = stream(
        command(root, "make", &["--no-print-directory", stage.target]),
        |line| {
            if let Some(count) = stage.source.read(line) {
                seen += count;
            }
        },
    )?;
    Ok(judge(seen, status, start.elapsed()))
}

fn judge(seen: Count, status: ExitStatus, time: Duration) -> Outcome {
    let count = match seen {
        Count { passed, failed: 0 } if passed == 0 || !status.success() => Count { passed, failed: 1 },
        counted => counted,
    };
    Outcome {
        count,
        good: count.failed == 0,
        time,
    }
}

/// One line for each stage, those that were not reached included.
fn table(stages: &[Stage], outcomes: &[Outcome]) -> String {
    let mut lines = vec![row("stage", "passed", "failed", "time")];
    for (index, stage) in stages.iter().enumerate() {
        lines.push(match outcomes.get(index) {
            None => row(stage.target, "-", "-", "not run"),
            Some(Outcome { count, time, .. }) => row(
                stage.target,
                &count.passed.to_string(),
                &count.failed.to_string(),
                &minutes(*time),
            ),
        });
    }
    let whole = outcomes.iter().map(|outcome| outcome.time).sum();
    lines.push(row("all", "", "", &minutes(whole)));
    lines.concat()
}

fn row(stage: &str, passed: &str, failed: &str, time: &str) -> String {
    format!("{stage:<12} {passed:>8} {failed:>8} {time:>9}\n")
}

fn minutes(time: Duration) -> String {
    format!("{}m{:02}s", time.as_secs() / 60, time.as_secs() % 60)
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt as _;

    use super::*;

    fn outcome(passed: u64, failed: u64, code: i32) -> Outcome {
        judge(
            Count { passed, failed },
            ExitStatus::from_raw(code << 8),
            Duration::from_secs(75),
        )
    }

    #[test]
    fn a_stage_that_breaks_without_a_failed_test_counts_as_one() {
        assert_eq!(outcome(3, 0, 2).count, Count { passed: 3, failed: 1 });
        assert_eq!(outcome(3, 2, 2).count, Count { passed: 3, failed: 2 });
        assert_eq!(outcome(3, 0, 0).count, Count { passed: 3, failed: 0 });
    }

    #[test]
    fn a_stage_without_a_test_did_not_pass() {
        assert!(!outcome(0, 0, 0).good);
    }

    #[test]
    fn a_failed_test_is_believed_even_when_the_program_ends_well() {
        assert!(!outcome(3, 1, 0).good);
        assert!(outcome(3, 0, 0).good);
    }

    #[test]
    fn stages_that_were_not_reached_are_in_the_table() {
        let text = table(STAGES, &[outcome(5, 0, 0), outcome(40, 1, 1)]);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[1], "lint                5        0     1m15s");
        assert_eq!(lines[2], "unit               40        1     1m15s");
        assert_eq!(lines[3], "engine-test         -        -   not run");
        assert_eq!(lines[5], "all                                2m30s");
    }
}
