//! Events: what a person reads in `kubectl describe`. They are told on transitions only.

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::Client;
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use tracing::{debug, warn};

/// The longest note the API takes is 1 kB.
const LONGEST_NOTE: usize = 1000;

/// Tells events in the operator's name.
#[derive(Clone)]
pub struct Teller(Recorder);

impl Teller {
    /// A teller for this instance of the operator.
    #[must_use]
    pub fn new(client: Client, instance: String) -> Self {
        Self(Recorder::new(
            client,
            Reporter {
                controller: "foreshard".into(),
                instance: Some(instance),
            },
        ))
    }

    /// Tells one. An event that cannot be told is logged and does not stop the work.
    pub async fn tell(&self, about: &ObjectReference, telling: Telling) {
        let event = Event {
            type_: if telling.warning {
                EventType::Warning
            } else {
                EventType::Normal
            },
            reason: telling.reason,
            note: Some(shorten(&telling.note)),
            action: telling.action,
            secondary: None,
        };
        match self.0.publish(&event, about).await {
            Ok(()) => {}
            Err(error) if error.to_string().contains("being terminated") => {
                debug!(
                    reason = event.reason,
                    "Told no event, because the namespace is going"
                );
            }
            Err(error) => warn!(%error, reason = event.reason, "Could not tell an event"),
        }
    }
}

/// An event to be told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Telling {
    /// Whether something is wrong.
    pub warning: bool,
    /// A CamelCase word.
    pub reason: String,
    /// What was being done, a CamelCase word.
    pub action: String,
    /// A sentence.
    pub note: String,
}

/// The events that a change of conditions is worth: one for each of `kinds` whose status changed. Pure.
#[must_use]
pub fn transitions(before: &[Condition], after: &[Condition], kinds: &[(&str, &str)]) -> Vec<Telling> {
    let status_of = |conditions: &[Condition], kind: &str| {
        conditions
            .iter()
            .find(|condition| condition.type_ == kind)
            .map(|condition| condition.status.clone())
    };
    let mut tellings = Vec::new();
    for &(kind, good) in kinds {
        let was = status_of(before, kind);
        let Some(now) = after.iter().find(|condition| condition.type_ == kind) else {
            continue;
        };
        let changed = was
            .as_deref()
            .unwrap_or(if good == "True" { "False" } else { good })
            != now.status;
        if changed {
            let fine = now.status == good;
            let reason = match (good, fine) {
                ("True", true) => kind.to_owned(),
                ("True", false) => format!("Not{kind}"),
                (_, true) => format!("{kind}Over"),
                (_, false) => now.reason.clone(),
            };
            let note = if now.message.is_empty() {
                format!("{kind} is {}", now.status)
            } else {
                now.message.clone()
            };
            tellings.push(Telling {
                warning: !fine,
                reason,
                action: "Reconcile".to_owned(),
                note,
            });
        }
    }
    tellings
}

fn shorten(note: &str) -> String {
    if note.len() <= LONGEST_NOTE {
        return note.to_owned();
    }
    let end = (0..=LONGEST_NOTE)
        .rev()
        .find(|&end| note.is_char_boundary(end))
        .unwrap_or(0);
    format!("{}…", note.get(..end).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::Timestamp;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

    fn condition(kind: &str, status: &str, reason: &str) -> Condition {
        Condition {
            type_: kind.into(),
            status: status.into(),
            reason: reason.into(),
            message: "why".into(),
            last_transition_time: Time(Timestamp::UNIX_EPOCH),
            observed_generation: None,
        }
    }

    const KINDS: &[(&str, &str)] = &[("Ready", "True"), ("Degraded", "False")];

    #[test]
    fn only_changes_are_told() {
        let fine = [
            condition("Ready", "True", "AsAsked"),
            condition("Degraded", "False", "AsAsked"),
        ];
        let ill = [
            condition("Ready", "False", "PodFailing"),
            condition("Degraded", "True", "PodFailing"),
        ];
        let reasons = |before: &[Condition], after: &[Condition]| -> Vec<(String, bool)> {
            transitions(before, after, KINDS)
                .into_iter()
                .map(|told| (told.reason, told.warning))
                .collect()
        };
        assert_eq!(reasons(&fine, &fine), []);
        assert_eq!(reasons(&[], &fine), [("Ready".into(), false)]);
        assert_eq!(reasons(&[], &ill), [("PodFailing".into(), true)]);
        assert_eq!(
            reasons(&fine, &ill),
            [("NotReady".into(), true), ("PodFailing".into(), true)]
        );
        assert_eq!(
            reasons(&ill, &fine),
            [("Ready".into(), false), ("DegradedOver".into(), false)]
        );
    }

    #[test]
    fn a_long_note_is_cut_at_a_letter() {
        let note = shorten(&"ä".repeat(600));
        assert!(note.len() <= LONGEST_NOTE + 3 && note.ends_with('…'));
    }
}
