//! What every reconcile pass shares.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use foreshard_api::ValkeyClusterStatus;
use foreshard_kube::events::Teller;
use foreshard_kube::lease::Leadership;
use foreshard_store::NodeAdmin;
use kube::Client;

use crate::cache::Cache;
use crate::metrics::Metrics;

/// Shared by all passes of a scope.
pub(crate) struct Context<A> {
    pub(crate) client: Client,
    pub(crate) cache: Cache,
    pub(crate) admin: Arc<A>,
    pub(crate) leadership: Leadership,
    pub(crate) teller: Teller,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) failures: Failures,
    pub(crate) written: Written,
    pub(crate) said: Said,
}

impl<A: NodeAdmin> Context<A> {
    /// Lets go of what is remembered about an object that is gone.
    pub(crate) fn forget(&self, object: &str) {
        self.failures.clear(object);
        self.written
            .0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(object);
        self.said
            .0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(object);
    }

    /// Fails unless this instance may act. Asked before every effect.
    pub(crate) fn may_act(&self) -> Result<(), NotLeader> {
        if self.leadership.holds() {
            Ok(())
        } else {
            Err(NotLeader)
        }
    }
}

/// This instance does not hold the lease (any more).
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("this instance does not hold the lease")]
pub(crate) struct NotLeader;

/// How often in a row each object's pass has failed, for waiting longer each time.
#[derive(Default)]
pub(crate) struct Failures(Mutex<HashMap<String, u32>>);

impl Failures {
    const FIRST: Duration = Duration::from_millis(500);
    const LONGEST: Duration = Duration::from_mins(1);

    /// Counts a failure; says how many there were in a row and how long to wait. Objects with different names wait
    /// differently, so that many that failed together do not come back together.
    pub(crate) fn count(&self, object: &str) -> (u32, Duration) {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let count = counts.entry(object.to_owned()).or_default();
        *count = count.saturating_add(1);
        let doubled = Self::FIRST.saturating_mul(1 << (*count - 1).min(16));
        let spread = object
            .bytes()
            .fold(0u32, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte.into()))
            % 200;
        (
            *count,
            doubled
                .min(Self::LONGEST)
                .mul_f64(0.9 + f64::from(spread) / 1000.0),
        )
    }

    /// Forgets the failures of an object that is fine again, or gone.
    pub(crate) fn clear(&self, object: &str) {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(object);
    }
}

/// The statuses we wrote that the watch may not have brought back yet. A pass that compares with an older one would
/// write and tell the same again.
#[derive(Default)]
pub(crate) struct Written(Mutex<HashMap<String, (ValkeyClusterStatus, Instant)>>);

impl Written {
    /// A watch that is later than this has other troubles.
    const PATIENCE: Duration = Duration::from_secs(2);

    /// Notes what was written.
    pub(crate) fn note(&self, object: &str, status: ValkeyClusterStatus) {
        let entry = (status, Instant::now());
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(object.to_owned(), entry);
    }

    /// Whether what the watch shows is older than what we wrote.
    pub(crate) fn is_ahead_of(&self, object: &str, shown: &ValkeyClusterStatus) -> bool {
        let mut entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let ahead = entries
            .get(object)
            .is_some_and(|(status, at)| status != shown && at.elapsed() < Self::PATIENCE);
        if !ahead {
            entries.remove(object);
        }
        ahead
    }
}

/// What was last said on objects that cannot be read, so that it is said once.
#[derive(Default)]
pub(crate) struct Said(Mutex<HashMap<String, String>>);

impl Said {
    /// Whether this has not been said yet; from now on it has.
    pub(crate) fn is_news(&self, object: &str, text: &str) -> bool {
        let mut said = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        said.insert(object.to_owned(), text.to_owned())
            .is_none_or(|before| before != text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_failure_waits_longer_up_to_a_minute() {
        let failures = Failures::default();
        let waits: Vec<Duration> = (0..40).map(|_| failures.count("ns/shop").1).collect();
        assert!(waits.is_sorted());
        assert!(waits[0] < Duration::from_secs(1) && waits[39] <= Duration::from_secs(66));
        failures.clear("ns/shop");
        assert_eq!(failures.count("ns/shop"), (1, waits[0]));
    }
}
