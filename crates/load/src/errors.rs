//! What went wrong with one operation, under names that stay the same.

use std::borrow::Cow;

use redis::{ErrorKind, RedisError, ServerErrorKind};

/// Why one operation failed, as the application would see it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpError {
    /// No answer in time. A write may or may not have happened.
    #[error("no answer in time")]
    Timeout,
    /// The slot has no known owner.
    #[error("no node is known for the slot")]
    NoNode,
    /// The store or the connection said no.
    #[error(transparent)]
    Store(#[from] RedisError),
}

impl OpError {
    /// The name under which the error is counted: one of `moved`, `ask`, `clusterdown`,
    /// `tryagain`, `readonly`, `loading`, `masterdown`, `noauth`, `noperm`, `oom`, `noreplicas`,
    /// `timeout`, `connection-refused`, `connection-lost`, `unreachable`, or `other:<code>`.
    #[must_use]
    pub fn kind(&self) -> Cow<'static, str> {
        match self {
            Self::Timeout => "timeout".into(),
            Self::NoNode => "other:no-node".into(),
            Self::Store(error) => classify(error),
        }
    }
}

fn classify(error: &RedisError) -> Cow<'static, str> {
    match error.kind() {
        ErrorKind::Server(kind) => classify_server(kind, error),
        ErrorKind::AuthenticationFailed => "noauth".into(),
        ErrorKind::Io | ErrorKind::ClusterConnectionNotFound => classify_io(error).into(),
        _ => error.code().map_or_else(|| "other:client".into(), classify_code),
    }
}

fn classify_server(kind: ServerErrorKind, error: &RedisError) -> Cow<'static, str> {
    match kind {
        ServerErrorKind::Moved => "moved".into(),
        ServerErrorKind::Ask => "ask".into(),
        ServerErrorKind::ClusterDown => "clusterdown".into(),
        ServerErrorKind::TryAgain => "tryagain".into(),
        ServerErrorKind::ReadOnly => "readonly".into(),
        ServerErrorKind::BusyLoading => "loading".into(),
        ServerErrorKind::MasterDown => "masterdown".into(),
        ServerErrorKind::NoPerm => "noperm".into(),
        _ => classify_code(error.code().unwrap_or("ERR")),
    }
}

fn classify_code(code: &str) -> Cow<'static, str> {
    match code {
        "NOAUTH" | "WRONGPASS" => "noauth".into(),
        "OOM" => "oom".into(),
        "NOREPLICAS" => "noreplicas".into(),
        _ => format!("other:{}", code.to_ascii_lowercase()).into(),
    }
}

fn classify_io(error: &RedisError) -> &'static str {
    // The cluster client wraps the cause in text when it cannot reach any node.
    let detail = error.detail().unwrap_or_default();
    if error.is_timeout() {
        "timeout"
    } else if error.is_connection_refusal() || detail.contains("refused") {
        "connection-refused"
    } else if matches!(
        io_kind(error),
        Some(std::io::ErrorKind::HostUnreachable | std::io::ErrorKind::NetworkUnreachable)
    ) {
        "unreachable"
    } else if error.is_connection_dropped() || error.kind() == ErrorKind::ClusterConnectionNotFound {
        "connection-lost"
    } else {
        "other:io"
    }
}

fn io_kind(error: &RedisError) -> Option<std::io::ErrorKind> {
    type Shared = std::sync::Arc<dyn std::error::Error + Send + Sync>;
    let source = std::error::Error::source(error)?;
    let shared = source.downcast_ref::<Shared>()?;
    shared.downcast_ref::<std::io::Error>().map(std::io::Error::kind)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;

    fn from_server(line: &str) -> String {
        let value = redis::parse_redis_value(format!("-{line}\r\n").as_bytes()).unwrap();
        let redis::Value::ServerError(error) = value else {
            panic!("not an error: {value:?}")
        };
        OpError::from(RedisError::from(error)).kind().into_owned()
    }

    fn from_io(kind: io::ErrorKind) -> String {
        OpError::from(RedisError::from(io::Error::from(kind)))
            .kind()
            .into_owned()
    }

    #[test]
    fn server_answers_have_stable_names() {
        for (line, name) in [
            ("MOVED 1 127.0.0.1:7001", "moved"),
            ("ASK 1 127.0.0.1:7001", "ask"),
            ("CLUSTERDOWN The cluster is down", "clusterdown"),
            (
                "TRYAGAIN Multiple keys request during rehashing of slot",
                "tryagain",
            ),
            (
                "READONLY You can't write against a read only replica.",
                "readonly",
            ),
            ("LOADING Redis is loading the dataset in memory", "loading"),
            ("MASTERDOWN Link with MASTER is down", "masterdown"),
            ("NOAUTH Authentication required.", "noauth"),
            (
                "WRONGPASS invalid username-password pair or user is disabled.",
                "noauth",
            ),
            ("NOPERM this user has no permissions", "noperm"),
            ("OOM command not allowed when used memory > 'maxmemory'.", "oom"),
            ("NOREPLICAS Not enough good replicas to write.", "noreplicas"),
            ("MISCONF Errors writing to the AOF file", "other:misconf"),
            ("ERR unknown command", "other:err"),
        ] {
            assert_eq!(from_server(line), name, "{line}");
        }
    }

    #[test]
    fn connection_troubles_have_stable_names() {
        assert_eq!(from_io(io::ErrorKind::ConnectionRefused), "connection-refused");
        assert_eq!(from_io(io::ErrorKind::ConnectionReset), "connection-lost");
        assert_eq!(from_io(io::ErrorKind::BrokenPipe), "connection-lost");
        assert_eq!(from_io(io::ErrorKind::UnexpectedEof), "connection-lost");
        assert_eq!(from_io(io::ErrorKind::TimedOut), "timeout");
        assert_eq!(from_io(io::ErrorKind::HostUnreachable), "unreachable");
        assert_eq!(OpError::Timeout.kind(), "timeout");
    }
}
