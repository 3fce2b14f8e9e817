//! The command line.

use std::net::SocketAddr;

use clap::{Parser, ValueEnum};

/// Runs Valkey, Redis and Memcached on Kubernetes, with the capacity in place before the load needs it.
#[derive(Clone, Debug, Parser)]
#[command(name = "foreshard", version)]
pub struct Args {
    /// Namespaces to look after, separated by commas. Without it: all.
    #[arg(long, env = "FORESHARD_WATCH_NAMESPACES", value_delimiter = ',')]
    pub watch_namespaces: Vec<String>,

    /// Where /metrics, /healthz and /readyz are served.
    #[arg(long, env = "FORESHARD_HTTP_ADDRESS", default_value = "0.0.0.0:8080")]
    pub http_address: SocketAddr,

    /// The namespace of the Lease that makes one instance the leader.
    #[arg(long, env = "POD_NAMESPACE", default_value = "default")]
    pub lease_namespace: String,

    /// The name of the Lease.
    #[arg(long, env = "FORESHARD_LEASE_NAME", default_value = "foreshard")]
    pub lease_name: String,

    /// This instance's name in the Lease and in events. No two may have the same.
    #[arg(long, env = "POD_NAME", default_value_t = outside())]
    pub identity: String,

    /// How store nodes are reached: at their pod address, or through the API server when the operator runs outside.
    #[arg(long, env = "FORESHARD_TRANSPORT", value_enum, default_value_t = Transport::Direct)]
    pub transport: Transport,

    /// How log lines are written.
    #[arg(long, env = "FORESHARD_LOG_FORMAT", value_enum, default_value_t = LogFormat::Text)]
    pub log_format: LogFormat,

    /// What is logged: a level, or a filter such as `info,foreshard_operator=debug`.
    #[arg(long, env = "FORESHARD_LOG_LEVEL", default_value = "info")]
    pub log_level: String,
}

/// A name for an instance outside of a cluster.
fn outside() -> String {
    format!("foreshard-outside-{}", std::process::id())
}

impl Args {
    /// The namespaces to look after; `None` stands for all.
    #[must_use]
    pub fn scopes(&self) -> Vec<Option<String>> {
        let named: Vec<Option<String>> = self
            .watch_namespaces
            .iter()
            .filter(|name| !name.is_empty())
            .cloned()
            .map(Some)
            .collect();
        if named.is_empty() { vec![None] } else { named }
    }
}

/// How store nodes are reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Transport {
    /// At the pod's address.
    Direct,
    /// By a port-forward through the API server.
    PortForward,
}

/// How log lines are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// For people.
    Text,
    /// For machines.
    Json,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_namespaces_means_all_of_them() {
        assert_eq!(Args::parse_from(["foreshard"]).scopes(), [None]);
        assert_eq!(
            Args::parse_from(["foreshard", "--watch-namespaces="]).scopes(),
            [None]
        );
        let some = Args::parse_from(["foreshard", "--watch-namespaces=a,b"]).scopes();
        assert_eq!(some, [Some("a".to_owned()), Some("b".to_owned())]);
    }
}
