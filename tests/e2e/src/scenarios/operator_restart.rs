use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use foreshard_api::ValkeyClusterStatus;
use foreshard_api::valkey_cluster::Phase;
use foreshard_testbed::faults;
use serde_json::json;

use crate::cluster::Cluster;
use crate::operator;
use crate::space::Space;
use crate::wait::{Seen, until};

/// Whether a moment has come, or has already passed.
type Reached = fn(&ValkeyClusterStatus) -> bool;

/// The five moments of a cluster's birth at which the operator is struck down.
const MOMENTS: [(&str, Reached); 5] = [
    ("not seen yet", |_| true),
    ("first objects made", |status| status.phase.is_some()),
    ("members answer", |status| {
        !matches!(status.members.as_str(), "" | "0/6")
    }),
    ("members introduced", |status| {
        !matches!(status.phase, None | Some(Phase::Creating | Phase::WaitingForPods))
    }),
    ("slots given out", |status| status.serving_shards > 0),
];

/// How long another instance may take to lead after the first was struck down.
const TAKEOVER: Duration = Duration::from_secs(20);
/// A takeover faster than this means that the first one had time to give the lease back, so it was no crash.
const CRASH: Duration = Duration::from_secs(5);

/// The operator is struck down at five moments of a cluster's birth, without a chance to say goodbye; each still
/// forms. A second instance takes the lease over in time, and does nothing until then.
pub(crate) async fn run(space: Space) -> Result<()> {
    operator::scale(&space.client, 2).await?;
    let outcome = with_two(&space).await;
    operator::scale(&space.client, 1).await?;
    outcome
}

async fn with_two(space: &Space) -> Result<()> {
    for (number, (moment, reached)) in MOMENTS.into_iter().enumerate() {
        struck_down(space, number, moment, reached).await?;
    }
    outlived(space).await
}

/// The leader is frozen at a moment of a cluster's birth and then removed: as if its machine had lost power.
async fn struck_down(space: &Space, number: usize, moment: &str, reached: Reached) -> Result<()> {
    let client = &space.client;
    let (leader, standby) = two(client).await?;
    let name = format!("birth-{number}");
    let cluster = Cluster::create(space, &name, Cluster::spec(&json!({"replicasPerShard": 1}))).await?;
    let api = cluster.api();
    let status = until(
        &format!("the moment \"{moment}\""),
        Duration::from_mins(1),
        || async {
            let status = api.get(&name).await?.status.unwrap_or_default();
            Ok(if reached(&status) {
                Seen::Yes(status)
            } else {
                Seen::NotYet(status.message)
            })
        },
    )
    .await?;
    faults::freeze(operator::NAMESPACE, &leader)?;
    let struck = Instant::now();
    operator::kill(client, &leader).await?;
    let took = watch_takeover(client, &leader, &standby, struck).await?;
    ensure!(
        took > CRASH,
        "the lease changed hands after {took:?}: the first one was not struck down but let go"
    );
    cluster.ready().await?;
    cluster.whole(3, 1).await?;
    println!(
        "operator-restart: struck down at \"{moment}\" (members {:?}, phase {:?}); lease taken over after {:.1} s, whole after {:.1} s",
        status.members,
        status.phase,
        took.as_secs_f64(),
        struck.elapsed().as_secs_f64()
    );
    cluster.delete().await?;
    operator::scale(client, 2).await
}

/// A leader that hangs and comes back finds that its time is over: it does nothing more, and ends.
async fn outlived(space: &Space) -> Result<()> {
    let client = &space.client;
    let (old, standby) = two(client).await?;
    faults::freeze(operator::NAMESPACE, &old)?;
    let frozen = Instant::now();
    // Work that only the new leader can do.
    let outcome = async {
        let cluster = Cluster::create(space, "heir", Cluster::spec(&json!({"replicasPerShard": 1}))).await?;
        watch_takeover(client, &old, &standby, frozen).await?;
        cluster.ready().await?;
        cluster.whole(3, 1).await
    };
    let outcome = outcome.await;
    faults::thaw(operator::NAMESPACE, &old)?;
    outcome?;
    until("the old leader to end", Duration::from_secs(30), || async {
        let restarts = operator::restarts(client, &old).await?;
        Ok(Seen::when(restarts > 0, "it runs on"))
    })
    .await?;
    ensure!(
        operator::leader(client).await? == standby,
        "the old leader took the lease back"
    );
    let log = operator::previous_log(client, &old).await?;
    ensure!(
        log.contains("may not act any more"),
        "the old leader did not say why it ended: {log}"
    );
    ensure!(
        !log.contains("heir"),
        "the old leader worked on a cluster made after its time was over: {log}"
    );
    println!("operator-restart: a leader that hung did nothing after its time was over, and ended");
    Ok(())
}

/// The leader and the one that waits, which has done nothing so far.
async fn two(client: &kube::Client) -> Result<(String, String)> {
    let leader = operator::led(client, Duration::from_secs(30)).await?;
    let standby = operator::pods(client)
        .await?
        .into_iter()
        .find(|pod| *pod != leader);
    let standby = standby.context("there is no second operator")?;
    let acted = actions(client, &standby).await?;
    ensure!(
        acted == 0.0,
        "{standby} does not hold the lease and did {acted} things"
    );
    Ok((leader, standby))
}

/// Until the lease is its own the standby does nothing; and the lease becomes its own, or that of the pod that
/// replaces the old one, in time.
async fn watch_takeover(
    client: &kube::Client,
    old: &str,
    standby: &str,
    struck: Instant,
) -> Result<Duration> {
    loop {
        // Asked before the holder: if the lease is still the old one's afterwards, it was then, too.
        let acted = actions(client, standby).await?;
        let holder = operator::leader(client).await?;
        let took = struck.elapsed();
        ensure!(
            took < TAKEOVER,
            "nobody took the lease over within {TAKEOVER:?}; it is held by {holder}"
        );
        if holder != old && !holder.is_empty() {
            return Ok(took);
        }
        ensure!(
            acted == 0.0,
            "{standby} did {acted} things while {holder} held the lease"
        );
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

async fn actions(client: &kube::Client, pod: &str) -> Result<f64> {
    let metrics = operator::metrics(client, pod).await?;
    let (writes, actions) = ("foreshard_api_writes_total", "foreshard_store_actions_total");
    Ok(operator::sum(&metrics, writes)? + operator::sum(&metrics, actions)?)
}
