use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use foreshard_testbed::faults;
use serde_json::json;

use crate::cluster::Cluster;
use crate::load::{Load, intact};
use crate::space::Space;
use crate::wait::{Seen, until};

/// The process of a primary is killed under load; the kubelet restarts it, empty, in the same pod, sooner than the
/// cluster notices. Its replica must end up as the primary, and everything that had been replicated must be there.
pub(crate) async fn run(space: Space) -> Result<()> {
    let cluster = Cluster::create(&space, "shop", Cluster::spec(&json!({"replicasPerShard": 1}))).await?;
    cluster.ready().await?;
    let load = Load::start(
        &space,
        "shop",
        25,
        &["--rate", "300", "--keys", "3000", "--wait-replicas", "1"],
    )
    .await?;

    let before = cluster.whole(3, 1).await?;
    let primary = before
        .iter()
        .find(|member| member.view.is_primary())
        .context("no primary")?;
    faults::kill_process(&space.namespace, &primary.pod, None, faults::FaultSignal::SIGKILL)?;
    let successor = before
        .iter()
        .find(|member| member.view.primary() == Some(&primary.view.id))
        .context("the primary has no replica")?;
    let killed = Instant::now();
    // The shard is healed when the replica owns its slots and the newcomer follows it; Ready alone may be from before.
    let slots = primary.view.own_slots();
    until("the replica to take over", Duration::from_mins(1), || async {
        let members = cluster.ask().await?;
        let owner = members.iter().find(|member| member.view.own_slots() == slots);
        let owner = owner.map_or("nobody", |member| member.pod.as_str());
        Ok(Seen::when(
            owner == successor.pod,
            format!("{owner} owns the slots"),
        ))
    })
    .await?;
    println!(
        "cluster-process-killed: the replica owned the slots {:.1} s after the kill",
        killed.elapsed().as_secs_f64()
    );
    cluster.settled().await?;
    println!(
        "cluster-process-killed: Ready again {:.1} s after the kill",
        killed.elapsed().as_secs_f64()
    );

    let after = cluster.whole(3, 1).await?;
    let now = after
        .iter()
        .find(|member| member.pod == successor.pod)
        .context("the replica is gone")?;
    ensure!(
        now.view.is_primary() && now.view.own_slots() == primary.view.own_slots(),
        "the replica did not take over"
    );
    let report = load.report().await?;
    intact(&report)?;
    println!(
        "cluster-process-killed: {} replicated writes, {} lost; longest gap {:.0} ms; errors {:?}",
        report.ledger.replicated, report.ledger.lost_replicated, report.longest_gap_ms, report.errors
    );
    Ok(())
}
