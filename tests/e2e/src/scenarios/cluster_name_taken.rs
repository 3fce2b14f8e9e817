use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::Service;
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, PostParams};
use serde_json::json;

use crate::cluster::Cluster;
use crate::space::Space;

/// A Service that has the cluster's name belongs to somebody else: it is left alone, and the cluster says why it waits.
pub(crate) async fn run(space: Space) -> Result<()> {
    let services: Api<Service> = Api::namespaced(space.client.clone(), &space.namespace);
    let theirs: Service = serde_json::from_value(json!({
        "metadata": {"name": "shop"}, "spec": {"ports": [{"port": 80}], "selector": {"app": "theirs"}},
    }))?;
    let before = services.create(&PostParams::default(), &theirs).await?;
    let cluster = Cluster::create(&space, "shop", Cluster::spec(&json!({"replicasPerShard": 0}))).await?;
    let message = cluster.condition("Degraded", "True", "NameTaken").await?;
    ensure!(message.contains("Service shop"), "{message}");
    let after = services.get("shop").await?;
    ensure!(
        after.resource_version() == before.resource_version(),
        "their Service was changed"
    );

    services.delete("shop", &DeleteParams::default()).await?;
    cluster.ready().await?;
    Ok(())
}
