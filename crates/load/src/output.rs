//! The only place that prints.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command line's output is its purpose"
)]

use std::io::{IsTerminal as _, Write as _};

use foreshard_load::{LedgerReport, Progress, Report, Verdict, display};

/// Every how many seconds a line is written when there is no terminal to rewrite it on.
const PLAIN_EVERY: u32 = 5;

/// The live line.
pub(crate) struct Live {
    terminal: bool,
    wanted: bool,
    told: u32,
}

impl Live {
    pub(crate) fn new(forced: bool, json: bool) -> Self {
        let terminal = std::io::stderr().is_terminal();
        Self {
            terminal,
            wanted: forced || terminal || !json,
            told: 0,
        }
    }

    pub(crate) fn tell(&mut self, progress: &Progress) {
        if !self.wanted {
            return;
        }
        let line = display::live_line(progress);
        if self.terminal {
            eprint!("\r\x1b[2K{line}");
            let _ = std::io::stderr().flush();
        } else {
            self.told += 1;
            let due = !matches!(progress, Progress::Loading(_)) || self.told.is_multiple_of(PLAIN_EVERY);
            if due {
                eprintln!("{line}");
            }
        }
    }

    /// Makes room for the summary.
    pub(crate) fn end(&self) {
        if self.terminal && self.wanted {
            eprint!("\r\x1b[2K");
        }
    }
}

pub(crate) fn report(report: &Report, json: bool) -> anyhow::Result<()> {
    if json {
        println!("{}", serde_json::to_string_pretty(report)?);
    } else {
        print!("{}", display::summary(report));
    }
    Ok(())
}

pub(crate) fn findings(ledger: &LedgerReport, json: bool) -> anyhow::Result<()> {
    let verdict: Verdict = ledger.verdict();
    if json {
        let document = serde_json::json!({ "ledger": ledger, "verdict": verdict });
        println!("{}", serde_json::to_string_pretty(&document)?);
    } else {
        print!("{}", display::findings(ledger, verdict));
    }
    Ok(())
}

pub(crate) fn error(error: &anyhow::Error) {
    eprintln!("error: {error:#}");
}
