use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use foreshard_testbed::faults;
use serde_json::json;

use crate::cluster::Cluster;
use crate::operator;
use crate::space::Space;
use crate::wait::{Seen, until};

/// Whether a moment has come.
type Reached = fn(&foreshard_api::ValkeyClusterStatus) -> bool;

/// What the status shows at the moment of the kill: one for each part of a cluster's birth.
const MOMENTS: [(&str, Reached); 5] = [
    ("first seen", |_| true),
    ("pods starting", |status| status.members != "0/6"),
    ("being introduced", |status| {
        format!("{:?}", status.phase).contains("InitializingCluster")
    }),
    ("slots assigned", |status| {
        format!("{:?}", status.phase).contains("AssigningSlots")
    }),
    ("replicas attaching", |status| status.slots.starts_with("16384")),
];

/// How long another instance may take to be leader after the first was killed without a chance to give up the lease.
const TAKEOVER: Duration = Duration::from_secs(20);

/// The operator is killed at five moments of a cluster's birth; each still forms. A second instance takes the lease
/// over in time, and does nothing until then.
pub(crate) async fn run(space: Space) -> Result<()> {
    operator::scale(&space.client, 2).await?;
    let outcome = with_two(&space).await;
    operator::scale(&space.client, 1).await?;
    outcome
}

async fn with_two(space: &Space) -> Result<()> {
    let client = &space.client;
    for (number, (moment, reached)) in MOMENTS.into_iter().enumerate() {
        let leader = operator::led(client, Duration::from_secs(30)).await?;
        let standby = operator::pods(client)
            .await?
            .into_iter()
            .find(|pod| *pod != leader);
        if let Some(standby) = &standby {
            idle(client, standby).await?;
        }
        let name = format!("birth-{number}");
        let cluster = Cluster::create(space, &name, Cluster::spec(&json!({"replicasPerShard": 1}))).await?;
        let api = cluster.api();
        until(
            &format!("the moment \"{moment}\""),
            Duration::from_mins(1),
            || async {
                let status = api.get(&name).await?.status.unwrap_or_default();
                Ok(Seen::when(
                    reached(&status),
                    format!("{:?} {}", status.phase, status.message),
                ))
            },
        )
        .await?;
        operator::kill(client, &leader).await?;
        let killed = Instant::now();
        if let Some(standby) = &standby {
            watch_takeover(client, &leader, standby, killed).await?;
        }
        cluster.ready().await?;
        cluster.whole(3, 1).await?;
        println!(
            "operator-restart: killed at \"{moment}\", whole again {:.1} s later",
            killed.elapsed().as_secs_f64()
        );
        cluster.delete().await?;
        operator::scale(client, 2).await?;
    }
    frozen_leader(space).await
}

/// A leader that hangs cannot give the lease back: the standby waits it out. Thawed, the old one finds that its time
/// is over, does nothing more and ends.
async fn frozen_leader(space: &Space) -> Result<()> {
    let client = &space.client;
    let old = operator::led(client, Duration::from_secs(30)).await?;
    let pods = operator::pods(client).await?;
    let standby = pods
        .iter()
        .find(|pod| **pod != old)
        .context("there is no second operator")?;
    let before = actions(client, &old).await?;
    faults::freeze(operator::NAMESPACE, &old)?;
    let frozen = Instant::now();
    // Work that only the new leader can do.
    let outcome = async {
        let cluster = Cluster::create(space, "heir", Cluster::spec(&json!({"replicasPerShard": 1}))).await?;
        watch_takeover(client, &old, standby, frozen).await?;
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
        operator::leader(client).await? == *standby,
        "the old leader took the lease back"
    );
    // Its count began anew with the process, so what it did before it ended is in its last log only.
    let log = operator::previous_log(client, &old).await?;
    let thawed = log
        .lines()
        .rev()
        .take_while(|line| !line.contains("may not act"))
        .count();
    ensure!(
        log.contains("may not act any more"),
        "the old leader did not say why it ended: {log}"
    );
    ensure!(
        thawed <= 2,
        "the old leader went on after it had lost the lease: {log}"
    );
    println!(
        "operator-restart: a frozen leader that had done {before} things did nothing after its time was over"
    );
    Ok(())
}

/// Until the lease is its own, the standby does nothing; and the lease becomes its own (or its peer's) in time.
async fn watch_takeover(client: &kube::Client, old: &str, standby: &str, killed: Instant) -> Result<()> {
    loop {
        // Asked before the holder: if the standby still does not hold the lease afterwards, it did not then either.
        let acted = actions(client, standby).await?;
        let holder = operator::leader(client).await?;
        if holder == standby || (!holder.is_empty() && holder != old) {
            let took = killed.elapsed();
            ensure!(took < TAKEOVER, "the lease was taken over only after {took:?}");
            println!(
                "operator-restart: the lease was taken over after {:.1} s",
                took.as_secs_f64()
            );
            return Ok(());
        }
        ensure!(
            acted == 0.0,
            "{standby} did {acted} things while {holder} held the lease"
        );
        ensure!(
            killed.elapsed() < TAKEOVER,
            "nobody took the lease over within {TAKEOVER:?}; holder: {holder}"
        );
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

async fn idle(client: &kube::Client, pod: &str) -> Result<()> {
    let acted = actions(client, pod).await?;
    ensure!(
        acted == 0.0,
        "{pod} does not hold the lease and did {acted} things"
    );
    Ok(())
}

async fn actions(client: &kube::Client, pod: &str) -> Result<f64> {
    let metrics = operator::metrics(client, pod).await?;
    Ok(operator::sum(&metrics, "foreshard_api_writes_total")?
        + operator::sum(&metrics, "foreshard_store_actions_total")?)
}
