//! Leader election on a `Lease`, by compare-and-swap.
//!
//! At most one instance acts. An instance that cannot renew stops acting well before another may begin, and then
//! ends: starting anew is the only way back. Times of other machines are not trusted: a lease is called expired only
//! after it has been *seen* unchanged for its whole duration by our own clock.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, Client};
use tokio::time::{Instant, sleep, timeout};
use tracing::{debug, info};

use crate::KubeError;

/// How long a lease is good for after its last renewal.
pub const DURATION: Duration = Duration::from_secs(15);
/// After this long without a renewal the holder stops acting. The rest of [`DURATION`] is for what it had begun.
pub const DEADLINE: Duration = Duration::from_secs(10);
/// How often the holder renews.
const RENEW: Duration = Duration::from_secs(3);
/// How often others look. A lease that is left behind is taken over within [`DURATION`] and two looks.
const RETRY: Duration = Duration::from_secs(1);
/// How long one call may take; several fit before the deadline.
const CALL: Duration = Duration::from_secs(3);

/// What to do about a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// It is ours, or free, or abandoned: write it.
    Write,
    /// Somebody holds it: look again later.
    Wait,
}

/// Decides by who holds the lease and for how long it has been seen unchanged. Pure.
#[must_use]
pub fn evaluate(lease: &LeaseSpec, me: &str, unchanged_for: Duration) -> Decision {
    let holder = lease.holder_identity.as_deref().unwrap_or_default();
    let seconds = lease
        .lease_duration_seconds
        .and_then(|seconds| u64::try_from(seconds).ok());
    let duration = seconds.map_or(DURATION, Duration::from_secs);
    if holder.is_empty() || holder == me || unchanged_for >= duration {
        Decision::Write
    } else {
        Decision::Wait
    }
}

/// Why leadership ended.
#[derive(Debug, thiserror::Error)]
pub enum Lost {
    /// Another instance holds the lease.
    #[error("the lease is held by {0}")]
    Taken(String),
    /// It could not be renewed in time.
    #[error("the lease could not be renewed for {} s: {why}", DEADLINE.as_secs())]
    NotRenewed {
        /// The last failure.
        why: String,
    },
}

/// Whether this instance may act. Cheap to ask before every effect.
#[derive(Clone, Debug, Default)]
pub struct Leadership(Arc<Mutex<Option<Instant>>>);

impl Leadership {
    /// Whether the lease was renewed recently enough to act.
    #[must_use]
    pub fn holds(&self) -> bool {
        let renewed = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        renewed.is_some_and(|at| at.elapsed() < DEADLINE)
    }

    fn set(&self, at: Option<Instant>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = at;
    }
}

/// One candidate.
pub struct Candidate {
    api: Api<Lease>,
    name: String,
    me: String,
    leadership: Leadership,
    seen: Option<(LeaseSpec, Instant)>,
}

impl Candidate {
    /// A candidate named `me` for the lease `name`.
    #[must_use]
    pub fn new(client: Client, namespace: &str, name: &str, me: &str) -> Self {
        Self {
            api: Api::namespaced(client, namespace),
            name: name.to_owned(),
            me: me.to_owned(),
            leadership: Leadership::default(),
            seen: None,
        }
    }

    /// Tells everybody else whether we lead.
    #[must_use]
    pub fn leadership(&self) -> Leadership {
        self.leadership.clone()
    }

    /// Waits until the lease is ours.
    pub async fn acquire(&mut self) {
        let mut told = String::new();
        loop {
            match self.attempt().await {
                Ok(None) => {
                    info!(lease = self.name, me = self.me, "Took the lease");
                    return;
                }
                Ok(Some(holder)) if holder != told => {
                    info!(
                        lease = self.name,
                        holder, "Waits for the lease, which another holds"
                    );
                    told = holder;
                }
                Ok(Some(holder)) => debug!(lease = self.name, holder, "Waited for the lease"),
                Err(error) => info!(lease = self.name, error, "Could not reach the lease"),
            }
            sleep(RETRY).await;
        }
    }

    /// Renews until that fails for too long or somebody else holds the lease. Returns only then.
    pub async fn keep(&mut self) -> Lost {
        loop {
            sleep(RENEW).await;
            let lost = match self.attempt().await {
                Ok(None) => continue,
                Ok(Some(holder)) => Lost::Taken(holder),
                Err(_) if self.leadership.holds() => continue,
                Err(why) => Lost::NotRenewed { why },
            };
            self.leadership.set(None);
            return lost;
        }
    }

    /// Gives the lease back, so that the next one need not wait for it to expire.
    pub async fn release(&mut self) -> Result<(), KubeError> {
        self.leadership.set(None);
        let what = format!("Releasing the lease {}", self.name);
        let found = KubeError::bounded(what.clone(), self.api.get_opt(&self.name)).await?;
        let Some(mut lease) = found else { return Ok(()) };
        let spec = lease.spec.get_or_insert_default();
        if spec.holder_identity.as_deref() != Some(self.me.as_str()) {
            return Ok(());
        }
        spec.holder_identity = Some(String::new());
        spec.renew_time = Some(MicroTime(Timestamp::now()));
        let parameters = PostParams::default();
        KubeError::bounded(what, self.api.replace(&self.name, &parameters, &lease)).await?;
        info!(lease = self.name, "Released the lease");
        Ok(())
    }

    /// One look and, if it is due, one write. `None` when the lease is ours now, else its holder.
    async fn attempt(&mut self) -> Result<Option<String>, String> {
        let began = Instant::now();
        let result = timeout(CALL, self.look_and_write()).await;
        let result = result.unwrap_or_else(|_| Err(format!("no answer within {} s", CALL.as_secs())));
        if let Ok(None) = &result {
            // Counted from before the call: the server may have taken it at any moment since.
            self.leadership.set(Some(began));
        }
        result
    }

    async fn look_and_write(&mut self) -> Result<Option<String>, String> {
        let found = self
            .api
            .get_opt(&self.name)
            .await
            .map_err(|error| error.to_string())?;
        // From here on, not from when we asked: it was seen when the answer came.
        let now = Instant::now();
        let Some(mut lease) = found else {
            let lease = Lease {
                metadata: ObjectMeta {
                    name: Some(self.name.clone()),
                    ..ObjectMeta::default()
                },
                spec: Some(renewed(&LeaseSpec::default(), &self.me, Timestamp::now())),
            };
            return self
                .api
                .create(&PostParams::default(), &lease)
                .await
                .map(|_| None)
                .map_err(|error| error.to_string());
        };
        let spec = lease.spec.clone().unwrap_or_default();
        let unchanged_since = match &self.seen {
            Some((seen, since)) if *seen == spec => *since,
            _ => now,
        };
        self.seen = Some((spec.clone(), unchanged_since));
        if evaluate(&spec, &self.me, now - unchanged_since) == Decision::Wait {
            return Ok(Some(spec.holder_identity.unwrap_or_default()));
        }
        lease.spec = Some(renewed(&spec, &self.me, Timestamp::now()));
        // The resourceVersion we read goes along: if anybody wrote in between, this is refused.
        self.api
            .replace(&self.name, &PostParams::default(), &lease)
            .await
            .map(|_| None)
            .map_err(|error| error.to_string())
    }
}

fn renewed(before: &LeaseSpec, me: &str, now: Timestamp) -> LeaseSpec {
    let mine = before.holder_identity.as_deref() == Some(me);
    let time = Some(MicroTime(now));
    LeaseSpec {
        holder_identity: Some(me.to_owned()),
        lease_duration_seconds: i32::try_from(DURATION.as_secs()).ok(),
        acquire_time: if mine {
            before.acquire_time.clone()
        } else {
            time.clone()
        },
        renew_time: time,
        lease_transitions: Some(before.lease_transitions.unwrap_or(0) + i32::from(!mine)),
        ..before.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held_by(holder: &str) -> LeaseSpec {
        LeaseSpec {
            holder_identity: Some(holder.into()),
            lease_duration_seconds: Some(15),
            ..LeaseSpec::default()
        }
    }

    #[test]
    fn a_lease_is_written_when_ours_free_or_seen_unchanged_for_its_duration() {
        let cases = [
            (held_by("me"), 0, Decision::Write),
            (held_by(""), 0, Decision::Write),
            (LeaseSpec::default(), 0, Decision::Write),
            (held_by("other"), 0, Decision::Wait),
            (held_by("other"), 14, Decision::Wait),
            (held_by("other"), 15, Decision::Write),
        ];
        for (lease, unchanged, expected) in cases {
            assert_eq!(
                evaluate(&lease, "me", Duration::from_secs(unchanged)),
                expected,
                "{lease:?} after {unchanged} s"
            );
        }
    }

    #[test]
    fn a_change_of_holder_is_counted_and_a_renewal_is_not() {
        let taken = renewed(&held_by("other"), "me", Timestamp::UNIX_EPOCH);
        assert_eq!(
            (taken.holder_identity.as_deref(), taken.lease_transitions),
            (Some("me"), Some(1))
        );
        let again = renewed(&taken, "me", Timestamp::from_second(5).unwrap());
        assert_eq!(again.lease_transitions, Some(1));
        assert_eq!(again.acquire_time, taken.acquire_time);
    }

    #[test]
    fn the_holder_stops_before_others_may_begin() {
        assert!(DEADLINE + CALL < DURATION);
    }
}
