use anyhow::{Result, ensure};
use serde_json::json;

use crate::cluster::Cluster;
use crate::evidence::kubectl;
use crate::load::{Load, intact};
use crate::space::Space;

/// Both nodes are drained, one right after the other, under load: the budget lets one member go at a time, and none
/// while a copy is not whole, so the cluster keeps its majority and everything that had been replicated.
pub(crate) async fn run(space: Space) -> Result<()> {
    let cluster = Cluster::create(&space, "shop", Cluster::spec(&json!({"replicasPerShard": 1}))).await?;
    cluster.ready().await?;
    let load = Load::start(
        &space,
        "shop",
        90,
        &["--rate", "300", "--keys", "3000", "--wait-replicas", "1"],
    )
    .await?;
    for node in ["node-1", "node-2"] {
        let drained = drain(node).await;
        let freed = run_kubectl(&["uncordon", node]).await;
        drained?;
        freed?;
    }
    cluster.settled().await?;
    let report = load.report().await?;
    intact(&report)?;
    println!(
        "cluster-drain: {} replicated writes, {} lost; longest gap {:.0} ms",
        report.ledger.replicated, report.ledger.lost_replicated, report.longest_gap_ms
    );
    Ok(())
}

/// Drains a node of the store's pods, as an administrator would; the load goes on where it is.
async fn drain(node: &str) -> Result<()> {
    run_kubectl(&[
        "drain",
        node,
        "--ignore-daemonsets",
        "--delete-emptydir-data",
        "--pod-selector=foreshard.io/cluster=shop",
        "--timeout=120s",
    ])
    .await
}

async fn run_kubectl(arguments: &[&str]) -> Result<()> {
    let output = kubectl().args(arguments).output().await?;
    let words = String::from_utf8_lossy(&output.stderr);
    ensure!(
        output.status.success(),
        "kubectl {}: {words}",
        arguments.join(" ")
    );
    Ok(())
}
