//! `kubectl foreshard`: what people at a terminal ask of Foreshard.
#![allow(clippy::print_stdout)] // Printing is what a command-line tool is for.

mod status;

use anyhow::Context as _;
use clap::{Parser, Subcommand};
use kube::{Client, Config, config::KubeConfigOptions};

/// Looks at the stores that Foreshard runs.
#[derive(Parser)]
#[command(name = "kubectl-foreshard", bin_name = "kubectl foreshard", version)]
struct Args {
    /// The namespace; without it the one of the current context.
    #[arg(short, long, global = true)]
    namespace: Option<String>,

    /// The kubeconfig context.
    #[arg(long, global = true)]
    context: Option<String>,

    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Shows a cluster: its shards, their members, roles, slots and sync. Without a name: every cluster.
    Status {
        /// The ValkeyCluster.
        name: Option<String>,
    },
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    let options = KubeConfigOptions {
        context: args.context,
        ..KubeConfigOptions::default()
    };
    let mut config = match Config::from_kubeconfig(&options).await {
        Ok(config) => config,
        Err(error) => Config::incluster()
            .map_err(|_| error)
            .context("reading the kubeconfig; set KUBECONFIG or --context")?,
    };
    if let Some(namespace) = args.namespace {
        config.default_namespace = namespace;
    }
    let client = Client::try_from(config).context("setting up the client of the API server")?;
    match args.command {
        Command::Status { name } => print!("{}", status::show(client, name.as_deref()).await?),
    }
    Ok(())
}
