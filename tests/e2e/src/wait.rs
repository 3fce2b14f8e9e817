//! Waiting for a condition, with a message that says what was waited for.

use std::future::Future;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

/// How often a condition is looked at.
const LOOK: Duration = Duration::from_millis(50);

/// Waits until `look` answers `Ok(Some(_))`. When time is up, the error says what was waited for and what was last
/// seen. An `Err` from `look` is a failed look, not a failed wait: the API server may be busy.
pub(crate) async fn until<T, F, Fut>(what: &str, limit: Duration, mut look: F) -> Result<T>
where
    F: FnMut() -> Fut,
    Fut: Future<Output = Result<Seen<T>>>,
{
    let began = Instant::now();
    loop {
        let last = match look().await {
            Ok(Seen::Yes(value)) => return Ok(value),
            Ok(Seen::NotYet(last)) => last,
            Err(error) => format!("the look failed: {error:#}"),
        };
        if began.elapsed() >= limit {
            bail!("waited {} s for {what}; last seen: {last}", limit.as_secs());
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// What a look found.
pub(crate) enum Seen<T> {
    /// What was waited for.
    Yes(T),
    /// Something else, in words.
    NotYet(String),
}

impl Seen<()> {
    /// From a yes-or-no look.
    pub(crate) fn when(yes: bool, otherwise: impl Into<String>) -> Self {
        if yes {
            Self::Yes(())
        } else {
            Self::NotYet(otherwise.into())
        }
    }
}
