//! Logs.

use anyhow::Context as _;
use tracing_subscriber::EnvFilter;

use crate::args::{Args, LogFormat};

/// Starts logging as asked for.
pub fn start(args: &Args) -> anyhow::Result<()> {
    // A plain level speaks of our own lines. What fails in the client library is told by us, with the object's name.
    let mut wanted = args.log_level.clone();
    if !wanted.contains(['=', ',']) {
        wanted.push_str(",kube_runtime=off,kube_client=off");
    }
    let filter = EnvFilter::try_new(&wanted).with_context(|| {
        format!(
            "--log-level: \"{}\" is neither a level nor a filter",
            args.log_level
        )
    })?;
    let logs = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_target(false)
        .with_writer(std::io::stderr);
    match args.log_format {
        LogFormat::Text => logs.with_ansi(false).init(),
        LogFormat::Json => logs.json().flatten_event(true).init(),
    }
    Ok(())
}
