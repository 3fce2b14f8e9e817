//! The proof: every key is read back and has to hold at least its last acknowledged version.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::client::Client;
use crate::errors::OpError;
use crate::gaps::{BUCKETS, bucket_of};
use crate::ledger::{Entry, Promises};
use crate::ledger_file::Saved;
use crate::operation::{Answer, Operation};
use crate::report::{LedgerReport, LossReason, LostKey};
use crate::slots::slot_of;
use crate::topology::Topology;
use crate::value::{Decoded, decode};

/// Between two tries to read keys that could not be read.
const RETRY_PAUSE: Duration = Duration::from_millis(200);
/// Before a missing key is looked at again: a client may still have asked a node that is being
/// replaced. What is truly lost does not come back.
const SECOND_LOOK: Duration = Duration::from_secs(1);
/// How many lost keys the report names.
const SAMPLES: usize = 10;

/// What a key turned out to hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Finding {
    Kept,
    Wrong { reason: LossReason, found: Option<u32> },
    Unreadable,
}

/// Reads back all that was promised. While keys cannot be read, the rest is tried again until
/// `patience` has passed without getting on.
pub(crate) async fn verify(
    clients: &[Client],
    saved: Saved,
    readers: usize,
    patience: Duration,
    topology: &Topology,
) -> LedgerReport {
    let saved = Arc::new(saved);
    let all = saved.promises.entries.clone();
    let mut findings = insist(clients, &saved, all, readers, patience).await;
    if findings
        .iter()
        .any(|(_, finding)| *finding != Finding::Unreadable)
    {
        tokio::time::sleep(SECOND_LOOK).await;
        let again = findings.into_iter().map(|(entry, _)| entry).collect();
        findings = insist(clients, &saved, again, readers, patience).await;
    }
    findings.sort_by_key(|(entry, _)| (entry.index, entry.generation));
    summarize(&saved.promises, &saved.prefix, &findings, topology)
}

async fn insist(
    clients: &[Client],
    saved: &Arc<Saved>,
    entries: Vec<Entry>,
    readers: usize,
    patience: Duration,
) -> Vec<(Entry, Finding)> {
    let mut wrong = Vec::new();
    let mut pending = entries;
    let mut deadline = Instant::now() + patience;
    loop {
        let asked = pending.len();
        let found = look(clients, saved, pending, readers).await;
        let (unreadable, other): (Vec<_>, Vec<_>) = found
            .into_iter()
            .partition(|(_, finding)| *finding == Finding::Unreadable);
        wrong.extend(other);
        if unreadable.len() < asked {
            deadline = Instant::now() + patience;
        }
        if unreadable.is_empty() || Instant::now() >= deadline {
            wrong.extend(unreadable);
            return wrong;
        }
        pending = unreadable.into_iter().map(|(entry, _)| entry).collect();
        tokio::time::sleep(RETRY_PAUSE).await;
    }
}

/// Reads every key once and returns what was not kept.
async fn look(
    clients: &[Client],
    saved: &Arc<Saved>,
    entries: Vec<Entry>,
    readers: usize,
) -> Vec<(Entry, Finding)> {
    let pass = Arc::new(Pass {
        saved: Arc::clone(saved),
        entries,
        next: AtomicUsize::new(0),
        silent: (0..BUCKETS).map(|_| AtomicBool::new(false)).collect(),
    });
    let mut tasks = JoinSet::new();
    for client in clients.iter().cycle().take(readers.max(1)) {
        let (client, pass) = (client.clone(), Arc::clone(&pass));
        tasks.spawn(async move { pass.read_some(&client).await });
    }
    let mut findings = Vec::new();
    while let Some(found) = tasks.join_next().await {
        findings.extend(found.unwrap_or_default());
    }
    findings
}

struct Pass {
    saved: Arc<Saved>,
    entries: Vec<Entry>,
    next: AtomicUsize,
    /// Slot buckets in which a key could not be read: a shard that hangs would otherwise cost a
    /// time-out for each of its keys.
    silent: Vec<AtomicBool>,
}

impl Pass {
    async fn read_some(&self, client: &Client) -> Vec<(Entry, Finding)> {
        let mut wrong = Vec::new();
        while let Some(entry) = self.entries.get(self.next.fetch_add(1, Ordering::Relaxed)) {
            let finding = self.examine(client, entry).await;
            if finding != Finding::Kept {
                wrong.push((*entry, finding));
            }
        }
        wrong
    }

    async fn examine(&self, client: &Client, entry: &Entry) -> Finding {
        let key = entry.key(&self.saved.prefix);
        let silent = self.silent.get(bucket_of(slot_of(&key)));
        if silent.is_some_and(|silent| silent.load(Ordering::Relaxed)) {
            return Finding::Unreadable;
        }
        if let Ok(value) = read(client, &key).await {
            return judge(&self.saved, entry, &key, value.as_deref());
        }
        if let Some(silent) = silent {
            silent.store(true, Ordering::Relaxed);
        }
        Finding::Unreadable
    }
}

async fn read(client: &Client, key: &str) -> Result<Option<Vec<u8>>, OpError> {
    match client
        .run(slot_of(key), &Operation::Read { key: key.to_owned() })
        .await?
    {
        Answer::Value(value) => Ok(value),
        Answer::Written { .. } => Ok(None),
    }
}

// A version above the acknowledged one is fine: it was sent, and its acknowledgement got lost.
fn judge(saved: &Saved, entry: &Entry, key: &str, value: Option<&[u8]>) -> Finding {
    let Some(value) = value else {
        return Finding::Wrong {
            reason: LossReason::Missing,
            found: None,
        };
    };
    match decode(saved.run, key, value) {
        Decoded::Ours { version } if version >= entry.acknowledged => Finding::Kept,
        Decoded::Ours { version } => Finding::Wrong {
            reason: LossReason::Older,
            found: Some(version),
        },
        Decoded::Foreign => Finding::Wrong {
            reason: LossReason::Foreign,
            found: None,
        },
        Decoded::Corrupt => Finding::Wrong {
            reason: LossReason::Corrupt,
            found: None,
        },
    }
}

fn summarize(
    promises: &Promises,
    prefix: &str,
    findings: &[(Entry, Finding)],
    topology: &Topology,
) -> LedgerReport {
    let mut report = LedgerReport {
        keys: count(promises.entries.len()),
        acknowledged: promises.acknowledged,
        replicated: promises.replicated,
        ..LedgerReport::default()
    };
    for (entry, finding) in findings {
        let Finding::Wrong { reason, found } = *finding else {
            report.unreadable += 1;
            continue;
        };
        let replicated = found.unwrap_or(0) < entry.replicated;
        if reason == LossReason::Corrupt {
            report.corrupt += 1;
        } else {
            report.lost += 1;
            report.lost_replicated += u64::from(replicated);
        }
        if report.samples.len() < SAMPLES {
            let key = entry.key(prefix);
            let slot = slot_of(&key);
            report.samples.push(LostKey {
                slot,
                shard: topology.shard_of(slot).map(|shard| shard.primary.clone()),
                reason,
                acknowledged: entry.acknowledged,
                found,
                replicated,
                key,
            });
        }
    }
    report
}

fn count(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::{RunId, encode};

    fn entry(acknowledged: u32, replicated: u32) -> Entry {
        Entry {
            index: 3,
            generation: 0,
            attempted: acknowledged + 1,
            acknowledged,
            replicated,
        }
    }

    fn judged(entry: Entry, version: u32) -> Finding {
        let run = RunId::generate();
        let saved = Saved {
            run,
            prefix: "load".into(),
            promises: Promises::default(),
        };
        let key = entry.key("load");
        judge(&saved, &entry, &key, Some(&encode(run, &key, version, 100)))
    }

    #[test]
    fn the_acknowledged_version_or_a_later_one_is_kept() {
        assert_eq!(judged(entry(5, 0), 5), Finding::Kept);
        assert_eq!(judged(entry(5, 0), 6), Finding::Kept);
        assert_eq!(
            judged(entry(5, 0), 4),
            Finding::Wrong {
                reason: LossReason::Older,
                found: Some(4)
            }
        );
    }

    #[test]
    fn another_runs_value_does_not_hide_a_loss() {
        let saved = Saved {
            run: RunId::generate(),
            prefix: "load".into(),
            promises: Promises::default(),
        };
        let old = encode(RunId::parse("1").unwrap(), "load:{3}", 100, 100);
        let finding = judge(&saved, &entry(5, 0), "load:{3}", Some(&old));
        assert_eq!(
            finding,
            Finding::Wrong {
                reason: LossReason::Foreign,
                found: None
            }
        );
    }

    #[test]
    fn replicated_losses_are_told_from_others() {
        let wrong = |found| Finding::Wrong {
            reason: LossReason::Older,
            found,
        };
        let findings = [
            (entry(7, 5), wrong(Some(6))),
            (entry(7, 5), wrong(Some(4))),
            (
                entry(7, 0),
                Finding::Wrong {
                    reason: LossReason::Missing,
                    found: None,
                },
            ),
            (
                entry(7, 0),
                Finding::Wrong {
                    reason: LossReason::Corrupt,
                    found: None,
                },
            ),
            (entry(7, 0), Finding::Unreadable),
        ];
        let report = summarize(&Promises::default(), "load", &findings, &Topology::single("a:1"));
        assert_eq!((report.lost, report.lost_replicated), (3, 1));
        assert_eq!((report.corrupt, report.unreadable), (1, 1));
        assert_eq!(report.samples.len(), 4);
        assert_eq!(report.samples[0].shard.as_deref(), Some("a:1"));
        assert!(report.samples[1].replicated);
    }
}
