//! What the Makefile leaves to a program: generated files, the checks of `make lint`, and the whole test run.

// A command-line tool for developers: its output is what the person at the terminal reads.
#![allow(clippy::print_stdout, clippy::print_stderr)]

use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};

mod command;
mod count;
mod generate;
mod lint;
mod repository;
mod test_run;

#[derive(Debug, Parser)]
#[command(name = "xtask", version)]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Write the CRDs, the RBAC rules and the charts' copies of both
    Generate {
        /// Compare only, and fail when a committed file is not what would be written
        #[arg(long)]
        check: bool,
    },
    /// Format, clippy, licences and advisories, generated files, charts
    Lint,
    /// Lint, unit, engine and end-to-end tests, in this order, up to the first that fails
    Test,
}

fn main() -> ExitCode {
    match act(&Arguments::parse().task) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Whether all went well; what did not has been said.
fn act(task: &Task) -> Result<bool> {
    let root = repository::root()?;
    match task {
        Task::Generate { check: false } => generate::write(&root).map(|()| true),
        Task::Generate { check: true } => generate::check(&root),
        Task::Lint => Ok(lint::run(&root)),
        Task::Test => test_run::run(&root),
    }
}
