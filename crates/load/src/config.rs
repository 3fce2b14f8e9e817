//! What to do: the settings of a run, as a test or the command line gives them.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// Where the load goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// A cluster, by the addresses of some of its nodes.
    Cluster(Vec<String>),
    /// A single primary, by the address of a node or of a Service.
    Primary(String),
}

/// Which client the cluster sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ClientKind {
    /// The tool's own: follows MOVED and ASK and counts them, shows every other error at once and
    /// asks for the slot map again. It measures the store and not a client's waiting times.
    #[default]
    Direct,
    /// The `redis` crate's cluster client with its own retries: what an application written with
    /// it would see.
    Library,
}

/// A password that does not show up in logs.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Password(pub String);

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(hidden)")
    }
}

/// How to reach the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Access {
    /// Where the load goes.
    pub target: Target,
    /// The ACL user; none for the default user.
    pub user: Option<String>,
    /// The user's password.
    pub password: Option<Password>,
    /// How long one operation may take before it counts as failed.
    pub timeout: Duration,
    /// How long to keep trying to connect at the start.
    pub connect_timeout: Duration,
    /// How many clients to open; workers share them.
    pub connections: usize,
    /// Which cluster client to use.
    pub client: ClientKind,
    /// How often the library's client tries again; none for its own default.
    pub client_retries: Option<u32>,
    /// Whether a client of a single primary opens a new connection after READONLY, as some do.
    pub reconnect_on_readonly: bool,
}

impl Access {
    /// Reaches `target` with everything else at its default.
    #[must_use]
    pub fn new(target: Target) -> Self {
        Self {
            target,
            user: None,
            password: None,
            timeout: Duration::from_secs(1),
            connect_timeout: Duration::from_secs(10),
            connections: 4,
            client: ClientKind::default(),
            client_retries: None,
            reconnect_on_readonly: false,
        }
    }
}

/// The settings of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// How to reach the store.
    pub access: Access,
    /// Writes per second to offer; 0 for as many as possible.
    pub rate: f64,
    /// How many operations may be under way at once.
    pub workers: usize,
    /// The size of a value in bytes.
    pub value_size: usize,
    /// How many keys the load writes, round by round.
    pub keys: u32,
    /// The share of operations that are reads, 0 up to but not including 1; in addition to `rate`.
    pub read_ratio: f64,
    /// How long to offer load; none for until cancelled.
    pub duration: Option<Duration>,
    /// How many replicas have to acknowledge a write for it to count as replicated; 0 to not ask.
    pub wait_replicas: u32,
    /// What key names begin with.
    pub prefix: String,
    /// How many keys to write once, at full speed, before the load.
    pub preload: u32,
    /// Where to keep the ledger for a later verification by another process.
    pub ledger: Option<PathBuf>,
    /// Whether to read everything back in the end.
    pub verify: bool,
    /// How long the verification may wait for keys that cannot be read.
    pub verify_timeout: Duration,
}

impl Config {
    /// A modest load on `target`: 500 writes a second on 10000 keys of 128 bytes, until cancelled.
    #[must_use]
    pub fn new(target: Target) -> Self {
        Self {
            access: Access::new(target),
            rate: 500.0,
            workers: 64,
            value_size: 128,
            keys: 10_000,
            read_ratio: 0.0,
            duration: None,
            wait_replicas: 0,
            prefix: "load".to_owned(),
            preload: 0,
            ledger: None,
            verify: true,
            verify_timeout: Duration::from_secs(30),
        }
    }

    /// Says what is wrong with the settings, if anything is.
    #[must_use]
    pub fn problem(&self) -> Option<&'static str> {
        if self.keys == 0 || self.workers == 0 || self.access.connections == 0 {
            Some("keys, workers and connections must be at least 1")
        } else if !(0.0..1.0).contains(&self.read_ratio) {
            Some("the read ratio must be at least 0 and less than 1")
        } else if !self.rate.is_finite() || self.rate < 0.0 {
            Some("the rate must be 0 (as fast as possible) or more")
        } else if self.prefix.contains(['{', '}', ' ']) || self.prefix.is_empty() {
            Some("the prefix must not be empty and not contain spaces or braces")
        } else if self.access.timeout.is_zero() {
            Some("the timeout must be more than 0")
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn senseless_settings_are_named() {
        let good = Config::new(Target::Primary("localhost:6379".into()));
        assert_eq!(good.problem(), None);
        assert!(
            Config {
                keys: 0,
                ..good.clone()
            }
            .problem()
            .is_some()
        );
        assert!(
            Config {
                read_ratio: 1.0,
                ..good.clone()
            }
            .problem()
            .is_some()
        );
        assert!(
            Config {
                rate: f64::NAN,
                ..good.clone()
            }
            .problem()
            .is_some()
        );
        assert!(
            Config {
                prefix: "a{b}".into(),
                ..good
            }
            .problem()
            .is_some()
        );
    }

    #[test]
    fn a_password_is_not_printed() {
        let mut access = Access::new(Target::Primary("localhost:6379".into()));
        access.password = Some(Password("geheim".into()));
        assert!(!format!("{access:?}").contains("geheim"));
    }
}
