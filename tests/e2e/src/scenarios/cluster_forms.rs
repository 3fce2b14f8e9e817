use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Result, ensure};
use serde_json::json;

use crate::cluster::Cluster;
use crate::load::{Load, flawless};
use crate::space::Space;

/// 3 shards × 1 replica: Ready, all slots served, spread over the nodes, load verified, deleted without a trace.
pub(crate) async fn run(space: Space) -> Result<()> {
    let cluster = Cluster::create(
        &space,
        "shop",
        Cluster::spec(&json!({"shards": 3, "replicasPerShard": 1})),
    )
    .await?;
    let took = cluster.ready().await?;
    println!("cluster-forms: Ready after {:.1} s", took.as_secs_f64());

    let members = cluster.whole(3, 1).await?;
    let mut nodes_of_shard: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    let mut primary_nodes = BTreeSet::new();
    for member in &members {
        nodes_of_shard
            .entry(&member.shard)
            .or_default()
            .insert(&member.node);
        if member.view.is_primary() {
            primary_nodes.insert(&member.node);
        }
    }
    ensure!(
        nodes_of_shard.values().all(|nodes| nodes.len() == 2),
        "both copies of a shard on one node: {nodes_of_shard:?}"
    );
    ensure!(
        primary_nodes.len() == 2,
        "all primaries are on one node: {primary_nodes:?}"
    );

    let load = Load::start(
        &space,
        "shop",
        15,
        &["--rate", "500", "--keys", "5000", "--wait-replicas", "1"],
    )
    .await?;
    let report = load.report().await?;
    flawless(&report)?;
    println!(
        "cluster-forms: {} acknowledged writes, {} lost, longest gap {:.0} ms",
        report.writes.acknowledged, report.ledger.lost, report.longest_gap_ms
    );
    cluster.delete().await
}
