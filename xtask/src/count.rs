//! How many tests passed and failed, read from what test programs print.

use std::fmt;
use std::ops::AddAssign;

/// Tests that passed and failed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// How many passed.
    pub passed: u64,
    /// How many failed.
    pub failed: u64,
}

impl AddAssign for Count {
    fn add_assign(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
    }
}

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} passed, {} failed", self.passed, self.failed)
    }
}

/// Who prints the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// `cargo test`: one `test result:` line for each test program.
    CargoTest,
    /// Our own runners: one line `N passed, M failed`.
    Summary,
}

impl Source {
    /// The result in this line, if it holds one.
    pub fn read(self, line: &str) -> Option<Count> {
        match self {
            Self::CargoTest => cargo_test(line),
            Self::Summary => summary(line),
        }
    }
}

/// `test result: ok. 5 passed; 0 failed; 1 ignored; …`
fn cargo_test(line: &str) -> Option<Count> {
    let rest = line.trim().strip_prefix("test result: ")?;
    let (_verdict, counts) = rest.split_once(". ")?;
    let mut parts = counts.split("; ");
    Some(Count {
        passed: number(parts.next()?, "passed")?,
        failed: number(parts.next()?, "failed")?,
    })
}

/// `5 passed, 0 failed` and nothing else.
fn summary(line: &str) -> Option<Count> {
    let (passed, failed) = line.trim().split_once(", ")?;
    Some(Count {
        passed: number(passed, "passed")?,
        failed: number(failed, "failed")?,
    })
}

fn number(part: &str, unit: &str) -> Option<u64> {
    part.strip_suffix(unit)?.trim_end().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cargo_test_results_are_read_whether_good_or_bad() {
        for (line, passed, failed) in [
            (
                "test result: ok. 5 passed; 0 failed; 0 ignored; 0 measured; 2 filtered out; finished in 0.01s",
                5,
                0,
            ),
            (
                "test result: FAILED. 11 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 3s",
                11,
                2,
            ),
        ] {
            assert_eq!(
                Source::CargoTest.read(line),
                Some(Count { passed, failed }),
                "{line}"
            );
        }
    }

    #[test]
    fn only_a_line_of_its_own_is_a_summary() {
        assert_eq!(
            Source::Summary.read("12 passed, 1 failed"),
            Some(Count {
                passed: 12,
                failed: 1
            })
        );
        for line in [
            "so far 12 passed, 1 failed",
            "12 passed",
            "passed, failed",
            "",
            "12 passed, 1 failed, 3 skipped",
        ] {
            assert_eq!(Source::Summary.read(line), None, "{line}");
        }
    }

    #[test]
    fn a_test_that_talks_about_results_is_not_one() {
        assert_eq!(Source::CargoTest.read("test a_result ... ok"), None);
        assert_eq!(Source::CargoTest.read("5 passed, 0 failed"), None);
    }

    #[test]
    fn what_is_printed_can_be_read_again() {
        let mut count = Count { passed: 3, failed: 0 };
        count += Count { passed: 4, failed: 1 };
        assert_eq!(Source::Summary.read(&count.to_string()), Some(count));
    }
}
