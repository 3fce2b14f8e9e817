//! `foreshard-load`: the command line of the load generator.

mod args;
mod output;

use std::process::ExitCode;

use anyhow::Context as _;
use clap::Parser as _;
use foreshard_load::{CancellationToken, Outcome, run_with_progress, verify_saved};
use tokio::signal::unix::{SignalKind, signal};

use crate::args::{Cli, Command, RunArgs, VerifyArgs};

fn main() -> ExitCode {
    let cli = Cli::parse();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let result = runtime.context("the runtime").and_then(|runtime| {
        runtime.block_on(async {
            match cli.command {
                Command::Run(args) => run(&args).await,
                Command::Verify(args) => verify(&args).await,
            }
        })
    });
    match result {
        Ok(outcome) => ExitCode::from(outcome as u8),
        Err(error) => {
            output::error(&error);
            ExitCode::from(2)
        }
    }
}

async fn run(args: &RunArgs) -> anyhow::Result<Outcome> {
    let cancel = CancellationToken::new();
    stop_on_signal(cancel.clone())?;
    let mut live = output::Live::new(args.progress, args.access.json);
    let report = run_with_progress(args.config()?, cancel, |progress| live.tell(&progress)).await;
    live.end();
    let report = report?;
    output::report(&report, args.access.json)?;
    Ok(report.outcome(args.policy()))
}

async fn verify(args: &VerifyArgs) -> anyhow::Result<Outcome> {
    let report = verify_saved(args.access.access()?, &args.ledger, args.access.patience()).await?;
    output::findings(&report, args.access.json)?;
    Ok(report.outcome(args.access.policy()))
}

fn stop_on_signal(cancel: CancellationToken) -> anyhow::Result<()> {
    let mut interrupt = signal(SignalKind::interrupt()).context("SIGINT")?;
    let mut terminate = signal(SignalKind::terminate()).context("SIGTERM")?;
    tokio::spawn(async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
        cancel.cancel();
    });
    Ok(())
}
