//! Failed calls to the API server, told apart by what to do next.

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
