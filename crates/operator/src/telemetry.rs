//! Logs.

use anyhow::Context as _;
use tracing_subscriber::EnvFilter;

use crate::args::{Args, LogFormat};

/// Starts logging as asked for.
pub fn start(args: &Args) -> anyhow::Result<()> {
    let filter = EnvFilter::try_new(&args.log_level).with_context(|| {
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
