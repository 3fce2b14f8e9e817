//! Failed calls to the API server, told apart by what to do next.

use std::time::Duration;

/// How long a call to the API server may take.
pub const CALL: Duration = Duration::from_secs(4);

/// A failed call, with what was being done.
#[derive(Debug, thiserror::Error)]
#[error("{what}: {source}")]
pub struct KubeError {
    /// What was being done, naming the object.
    pub what: String,
    /// What the client or the server said.
    #[source]
    pub source: Box<kube::Error>,
}

/// What an error asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// The server refuses it for good: trying the same again will not help until something changes.
    Refused,
    /// Somebody else wrote first: look again.
    Conflict,
    /// It may work later.
    Transient,
}

impl KubeError {
    /// Wraps a client error with what was being done.
    pub fn new(what: impl Into<String>, source: kube::Error) -> Self {
        Self {
            what: what.into(),
            source: Box::new(source),
        }
    }

    /// Waits for a call to the API server, but not longer than a lease has left after its holder stops acting: a call
    /// that takes effect later could cross another instance's.
    pub async fn bounded<T>(
        what: impl Into<String> + Send,
        call: impl Future<Output = Result<T, kube::Error>> + Send,
    ) -> Result<T, Self> {
        match tokio::time::timeout(CALL, call).await {
            Ok(result) => result.map_err(|error| Self::new(what, error)),
            Err(_) => Err(Self::new(
                what,
                kube::Error::Service(format!("no answer within {} s", CALL.as_secs()).into()),
            )),
        }
    }

    /// Whether the object is not there.
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        matches!(&*self.source, kube::Error::Api(answer) if answer.code == 404)
    }

    /// What to do about it.
    #[must_use]
    pub fn class(&self) -> Class {
        match &*self.source {
            kube::Error::Api(answer) => match answer.code {
                409 => Class::Conflict,
                400 | 403 | 404 | 405 | 422 => Class::Refused,
                _ => Class::Transient,
            },
            _ => Class::Transient,
        }
    }
}
