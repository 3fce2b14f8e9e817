use anyhow::{Context as _, Result, ensure};
use futures::future::try_join_all;
use serde_json::json;

use crate::cluster::Cluster;
use crate::load::{Load, flawless};
use crate::space::Space;

/// Image and what the server must call itself.
const ENGINES: [(&str, &str, &str); 3] = [
    ("v81", "valkey/valkey:8.1", "valkey 8.1."),
    ("r70", "redis:7.0", "redis 7.0."),
    ("r80", "redis:8.0", "redis 8.0."),
];

/// Other engines form, serve and are named by what they report, not by their tag.
pub(crate) async fn run(space: Space) -> Result<()> {
    try_join_all(ENGINES.map(|(name, image, version)| one(&space, name, image, version))).await?;
    Ok(())
}

async fn one(space: &Space, name: &str, image: &str, version: &str) -> Result<()> {
    let spec = Cluster::spec(&json!({"shards": 3, "replicasPerShard": 1, "image": image}));
    let cluster = Cluster::create(space, name, spec).await?;
    cluster.ready().await.with_context(|| format!("with {image}"))?;
    cluster
        .whole(3, 1)
        .await
        .with_context(|| format!("with {image}"))?;
    let engine = cluster
        .api()
        .get(name)
        .await?
        .status
        .and_then(|status| status.engine)
        .unwrap_or_default();
    ensure!(engine.starts_with(version), "{image} reports itself as {engine}");
    let report = Load::start(space, name, 5, &["--rate", "200", "--keys", "1000"])
        .await?
        .report()
        .await?;
    flawless(&report).with_context(|| format!("with {image}"))
}
