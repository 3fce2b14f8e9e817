//! `foreshard`, the operator.

use clap::Parser;
use foreshard_operator::{args::Args, run, telemetry};

// One thread is enough: the work is waiting for the network, and every further thread costs memory.
#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    telemetry::start(&args)?;
    run::run(args).await
}
