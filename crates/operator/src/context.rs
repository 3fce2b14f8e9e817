//! What every reconcile pass shares.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

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
}

impl<A: NodeAdmin> Context<A> {
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

    /// Counts a failure; says how long to wait. Objects with different names wait differently, so that many that
    /// failed together do not come back together.
    pub(crate) fn count(&self, object: &str) -> Duration {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let count = counts.entry(object.to_owned()).or_default();
        *count = count.saturating_add(1);
        let doubled = Self::FIRST.saturating_mul(1 << (*count - 1).min(16));
        let spread = object
            .bytes()
            .fold(0u32, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte.into()))
            % 200;
        doubled
            .min(Self::LONGEST)
            .mul_f64(0.9 + f64::from(spread) / 1000.0)
    }

    /// Forgets the failures of an object that is fine again, or gone.
    pub(crate) fn clear(&self, object: &str) {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(object);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_failure_waits_longer_up_to_a_minute() {
        let failures = Failures::default();
        let waits: Vec<Duration> = (0..40).map(|_| failures.count("ns/shop")).collect();
        assert!(waits.is_sorted());
        assert!(waits[0] < Duration::from_secs(1) && waits[39] <= Duration::from_secs(66));
        failures.clear("ns/shop");
        assert_eq!(failures.count("ns/shop"), waits[0]);
    }
}
