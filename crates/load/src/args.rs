//! The command line, and what it means.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use clap::{ArgGroup, Args, Parser, Subcommand, ValueEnum};
use foreshard_load::{Access, ClientKind, Config, Password, Policy, Target};

/// Offers load to a Valkey or Redis store, remembers every acknowledged write, and proves in the
/// end that none was lost.
#[derive(Debug, Parser)]
#[command(version, after_help = EXIT_CODES)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

const EXIT_CODES: &str = "\
Exit codes:
  0  everything acknowledged is there
  1  acknowledged writes are lost or damaged
  2  wrong options, or the store could not be reached at the start
  3  more errors than --max-errors
  4  some keys could not be read, so nothing is proven

SIGINT and SIGTERM end the load; it is verified and reported as usual.";

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Offer load, then read everything back
    #[command(after_help = EXIT_CODES)]
    Run(Box<RunArgs>),
    /// Read back what an earlier run has written down with --ledger
    #[command(after_help = EXIT_CODES)]
    Verify(VerifyArgs),
}

#[derive(Debug, Args)]
#[command(group = ArgGroup::new("target").required(true).args(["cluster", "primary"]))]
pub(crate) struct AccessArgs {
    /// A cluster, by some of its nodes; MOVED and ASK are followed
    #[arg(long, value_name = "HOST:PORT", value_delimiter = ',', value_parser = parse_address)]
    cluster: Vec<String>,
    /// A single primary, by a node or a Service; the connection is opened again when lost
    #[arg(long, value_name = "HOST:PORT", value_parser = parse_address)]
    primary: Option<String>,
    /// The ACL user
    #[arg(long, requires = "password_file")]
    user: Option<String>,
    /// A file that holds the password
    #[arg(long, value_name = "FILE")]
    password_file: Option<PathBuf>,
    /// How long one operation may take before it counts as failed
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = humantime::parse_duration)]
    timeout: Duration,
    /// How long to keep trying to connect at the start
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = humantime::parse_duration)]
    connect_timeout: Duration,
    /// How long the verification waits for keys that cannot be read
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = humantime::parse_duration)]
    verify_timeout: Duration,
    /// Which cluster client to use
    #[arg(long, value_enum, default_value_t)]
    client: ClientArg,
    /// How often the library client tries again by itself [default: its own]
    #[arg(long, value_name = "N")]
    client_retries: Option<u32>,
    /// With --primary: open a new connection after READONLY, as some clients do
    #[arg(long)]
    reconnect_on_readonly: bool,
    /// Print one JSON document on standard output instead of text
    #[arg(long)]
    pub(crate) json: bool,
    /// Exit with 0 if only writes were lost that no replica had confirmed
    #[arg(long)]
    allow_unreplicated_loss: bool,
}

#[derive(Debug, Clone, Copy, Default, ValueEnum)]
enum ClientArg {
    /// The tool's own: follows redirects and counts them, shows every other error at once
    #[default]
    Direct,
    /// The redis crate's cluster client: what an application written with it would see
    Library,
}

#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    pub(crate) access: AccessArgs,
    /// Writes per second to offer; 0 for as many as possible
    #[arg(long, value_name = "N", default_value_t = 500.0)]
    rate: f64,
    /// How long to offer load [default: until SIGINT or SIGTERM]
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    duration: Option<Duration>,
    /// How many keys to write, round by round
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    keys: u32,
    /// Write this many keys first, once, at full speed
    #[arg(long, value_name = "N", default_value_t = 0)]
    preload: u32,
    /// The size of a value in bytes (it needs about 60 for itself)
    #[arg(long, value_name = "BYTES", default_value_t = 128)]
    value_size: usize,
    /// The share of operations that are reads, in addition to --rate; 0.9 is nine reads per write
    #[arg(long, value_name = "SHARE", default_value_t = 0.0)]
    read_ratio: f64,
    /// Ask with WAIT for so many replicas after each write; confirmed ones are counted apart
    #[arg(long, value_name = "N", default_value_t = 0)]
    wait_replicas: u32,
    /// How many operations may be under way at once
    #[arg(long, value_name = "N", default_value_t = 64)]
    workers: usize,
    /// How many clients to open; workers share them, but with --wait-replicas each has its own
    #[arg(long, value_name = "N", default_value_t = 4)]
    connections: usize,
    /// What key names begin with; two loads on one store need two
    #[arg(long, default_value = "load")]
    prefix: String,
    /// Keep the ledger here, for `verify` by another process
    #[arg(long, value_name = "FILE")]
    ledger: Option<PathBuf>,
    /// Do not read back in the end; use with --ledger
    #[arg(long)]
    no_verify: bool,
    /// Fail if there were more errors than this
    #[arg(long, value_name = "N")]
    max_errors: Option<u64>,
    /// Fail if there was any error; the same as --max-errors 0
    #[arg(long, conflicts_with = "max_errors")]
    fail_on_errors: bool,
    /// Tell progress on standard error even if it is not a terminal
    #[arg(long)]
    pub(crate) progress: bool,
}

#[derive(Debug, Args)]
pub(crate) struct VerifyArgs {
    #[command(flatten)]
    pub(crate) access: AccessArgs,
    /// The ledger that `run --ledger` wrote
    #[arg(long, value_name = "FILE")]
    pub(crate) ledger: PathBuf,
}

impl AccessArgs {
    pub(crate) fn access(&self) -> anyhow::Result<Access> {
        let target = match &self.primary {
            Some(primary) => Target::Primary(primary.clone()),
            None => Target::Cluster(self.cluster.clone()),
        };
        let password = match &self.password_file {
            Some(file) => {
                let text = std::fs::read_to_string(file);
                let text = text.with_context(|| format!("the password file {}", file.display()))?;
                Some(Password(text.trim_end_matches(['\r', '\n']).to_owned()))
            }
            None => None,
        };
        Ok(Access {
            user: self.user.clone(),
            password,
            timeout: self.timeout,
            connect_timeout: self.connect_timeout,
            client: match self.client {
                ClientArg::Direct => ClientKind::Direct,
                ClientArg::Library => ClientKind::Library,
            },
            client_retries: self.client_retries,
            reconnect_on_readonly: self.reconnect_on_readonly,
            ..Access::new(target)
        })
    }

    pub(crate) fn policy(&self) -> Policy {
        Policy {
            allow_unreplicated_loss: self.allow_unreplicated_loss,
            max_errors: None,
        }
    }

    pub(crate) fn patience(&self) -> Duration {
        self.verify_timeout
    }
}

impl RunArgs {
    pub(crate) fn config(&self) -> anyhow::Result<Config> {
        Ok(Config {
            access: Access {
                connections: self.connections,
                ..self.access.access()?
            },
            rate: self.rate,
            workers: self.workers,
            value_size: self.value_size,
            keys: self.keys,
            read_ratio: self.read_ratio,
            duration: self.duration,
            wait_replicas: self.wait_replicas,
            prefix: self.prefix.clone(),
            preload: self.preload,
            ledger: self.ledger.clone(),
            verify: !self.no_verify,
            verify_timeout: self.access.verify_timeout,
        })
    }

    pub(crate) fn policy(&self) -> Policy {
        let max_errors = if self.fail_on_errors {
            Some(0)
        } else {
            self.max_errors
        };
        Policy {
            max_errors,
            ..self.access.policy()
        }
    }
}

fn parse_address(text: &str) -> Result<String, String> {
    match text.rsplit_once(':') {
        Some((host, port)) if !host.is_empty() && port.parse::<u16>().is_ok() => Ok(text.to_owned()),
        _ => Err("write it as host:port".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    fn run(arguments: &[&str]) -> RunArgs {
        let Command::Run(run) = Cli::parse_from([&["foreshard-load", "run"], arguments].concat()).command
        else {
            panic!("not a run");
        };
        *run
    }

    #[test]
    fn the_command_line_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn defaults_are_the_librarys() {
        let config = run(&["--primary", "localhost:6379"]).config().unwrap();
        assert_eq!(config, Config::new(Target::Primary("localhost:6379".into())));
    }

    #[test]
    fn seeds_are_a_list() {
        let config = run(&["--cluster", "a:1,b:2", "--duration", "1m30s"])
            .config()
            .unwrap();
        assert_eq!(
            config.access.target,
            Target::Cluster(vec!["a:1".into(), "b:2".into()])
        );
        assert_eq!(config.duration, Some(Duration::from_secs(90)));
    }

    #[test]
    fn a_target_is_needed_and_only_one() {
        assert!(Cli::try_parse_from(["foreshard-load", "run"]).is_err());
        let both = ["foreshard-load", "run", "--primary", "a:1", "--cluster", "b:1"];
        assert!(Cli::try_parse_from(both).is_err());
        assert!(Cli::try_parse_from(["foreshard-load", "run", "--primary", "no-port"]).is_err());
    }

    #[test]
    fn no_error_at_all_is_a_policy() {
        assert_eq!(
            run(&["--primary", "a:1", "--fail-on-errors"]).policy().max_errors,
            Some(0)
        );
        assert_eq!(run(&["--primary", "a:1"]).policy().max_errors, None);
    }
}
