//! What can go wrong between us and a store node, told apart by what one can do about it.

use foreshard_plan::NodeId;

/// A failed exchange with a store node.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// Nobody listens at the address: the process is not there.
    #[error("connection refused")]
    Refused,
    /// No answer in time. It proves nothing.
    #[error("no answer within {0} ms")]
    TimedOut(u128),
    /// The connection broke, or could not be made for another reason than a refusal.
    #[error("connection failed: {0}")]
    Broken(String),
    /// The server is reading its data set and answers nothing else yet.
    #[error("still loading its data")]
    Loading,
    /// The server wants other credentials.
    #[error("the server refused our credentials: {0}")]
    Credentials(String),
    /// Another node answers at this address. Nothing was done to it.
    #[error("node {found} answers where {expected} was expected")]
    WrongNode {
        /// Who should have been there.
        expected: NodeId,
        /// Who was there.
        found: NodeId,
    },
    /// The server refused a command.
    #[error("{command} was refused: {message}")]
    Rejected {
        /// The command.
        command: String,
        /// The server's words.
        message: String,
    },
    /// The server accepted a command, but its effect was not seen in time.
    #[error("{0} was accepted but had no effect in time")]
    NoEffect(String),
    /// The answer makes no sense.
    #[error("unreadable answer to {what}: {detail}")]
    Garbled {
        /// The command.
        what: &'static str,
        /// Where it stopped making sense.
        detail: String,
    },
}

impl StoreError {
    /// A stable word for metrics.
    #[must_use]
    pub const fn category(&self) -> &'static str {
        match self {
            Self::Refused => "refused",
            Self::TimedOut(_) => "timeout",
            Self::Broken(_) => "broken",
            Self::Loading => "loading",
            Self::Credentials(_) => "credentials",
            Self::WrongNode { .. } => "wrong-node",
            Self::Rejected { .. } => "rejected",
            Self::NoEffect(_) => "no-effect",
            Self::Garbled { .. } => "garbled",
        }
    }

    /// Whether it usually passes by itself, and another look will tell.
    #[must_use]
    pub const fn is_passing(&self) -> bool {
        matches!(
            self,
            Self::Refused
                | Self::TimedOut(_)
                | Self::Broken(_)
                | Self::Loading
                | Self::WrongNode { .. }
                | Self::NoEffect(_)
        )
    }

    /// Whether the connection is of no further use.
    #[must_use]
    pub const fn breaks_connection(&self) -> bool {
        matches!(
            self,
            Self::Refused | Self::TimedOut(_) | Self::Broken(_) | Self::Credentials(_) | Self::Garbled { .. }
        )
    }
}
