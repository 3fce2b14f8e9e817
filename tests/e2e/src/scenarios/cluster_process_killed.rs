use anyhow::{Context as _, Result, ensure};
use foreshard_testbed::faults;
use serde_json::json;

use crate::cluster::Cluster;
use crate::load::{Load, intact};
use crate::space::Space;

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
    cluster.condition("Ready", "False", "SlotsUncovered").await?;
    let took = cluster.ready().await?;
    println!(
        "cluster-process-killed: Ready again {:.1} s after it was noticed",
        took.as_secs_f64()
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
