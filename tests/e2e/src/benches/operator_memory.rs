//! How much memory the operator holds with one healthy cluster.

use std::time::Duration;

use anyhow::Result;
use kube::Client;
use serde_json::json;

use super::Figure;
use crate::cluster::Cluster;
use crate::operator;
use crate::space::Space;

/// How long to look: long enough for several passes.
const WATCHED: Duration = Duration::from_mins(1);

/// Resident memory of the leader: the highest seen while a cluster is made and then left in peace.
pub(crate) async fn run(client: Client) -> Result<Vec<Figure>> {
    let space = Space::open(client.clone(), "bench-operator-memory").await?;
    let outcome = measure(&space).await;
    space.close().await?;
    outcome
}

async fn measure(space: &Space) -> Result<Vec<Figure>> {
    let cluster = Cluster::create(space, "one", Cluster::spec(&json!({"replicasPerShard": 1}))).await?;
    cluster.ready().await?;
    let leader = operator::led(&space.client, Duration::from_secs(30)).await?;
    let mut highest: f64 = 0.0;
    let mut last: f64 = 0.0;
    let began = std::time::Instant::now();
    while began.elapsed() < WATCHED {
        let metrics = operator::metrics(&space.client, &leader).await?;
        last = operator::sum(&metrics, "process_resident_memory_bytes")? / 1e6;
        highest = highest.max(last);
        tokio::time::sleep(Duration::from_secs(5)).await;
    }
    let figure = |name: &str, ours: f64| Figure {
        name: name.to_owned(),
        ours,
        theirs: None,
        ratio: None,
        unit: "MB",
        target: Some(20.0),
    };
    Ok(vec![
        figure("resident memory, one cluster, at rest", last),
        figure("resident memory, one cluster, highest", highest),
    ])
}
