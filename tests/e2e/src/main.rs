//! `e2e`: scenarios and benchmarks on a real Kubernetes.
//!
//! Each scenario runs in a namespace of its own, under load where data is concerned, and cleans up behind itself.
//! One that fails leaves logs and objects under `target/e2e/<scenario>/`.
#![allow(clippy::print_stdout)] // The runner's output is its product.

mod benches;
mod cluster;
mod evidence;
mod load;
mod operator;
mod runner;
mod scenarios;
mod space;
mod wait;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Runs scenarios and benchmarks on the testbed or the current cluster.
#[derive(Parser)]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Runs scenarios.
    Run {
        /// One scenario by name.
        #[arg(long)]
        only: Option<String>,
        /// Those with a tag.
        #[arg(long, conflicts_with = "only")]
        tag: Option<String>,
        /// How many at a time.
        #[arg(long, default_value_t = 3)]
        jobs: usize,
    },
    /// Prints every scenario with its tags.
    List,
    /// Runs a benchmark by name, or all.
    Bench {
        /// Which.
        name: Option<String>,
    },
}

#[tokio::main]
async fn main() -> ExitCode {
    match work(Args::parse().command).await {
        Ok(true) => ExitCode::SUCCESS,
        // What failed has been said, and the count is the last line.
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            println!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn work(command: Command) -> anyhow::Result<bool> {
    match command {
        Command::Run { only, tag, jobs } => runner::run(only.as_deref(), tag.as_deref(), jobs).await,
        Command::List => {
            for scenario in scenarios::all() {
                println!(
                    "{:<28} {:<16} {}",
                    scenario.name,
                    scenario.tags.join(","),
                    scenario.about
                );
            }
            Ok(true)
        }
        Command::Bench { name } => benches::run(name.as_deref()).await.map(|()| true),
    }
}
