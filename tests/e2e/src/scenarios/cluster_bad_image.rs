use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, Patch, PatchParams};
use serde_json::json;

use crate::cluster::Cluster;
use crate::space::Space;

/// An image that does not exist is named in a condition with the kubelet's reason.
pub(crate) async fn run(space: Space) -> Result<()> {
    let spec = Cluster::spec(&json!({"image": "nowhere.invalid/no/such:1", "replicasPerShard": 0}));
    let cluster = Cluster::create(&space, "lost", spec).await?;
    let message = cluster.condition("Degraded", "True", "PodFailing").await?;
    ensure!(
        message.contains("nowhere.invalid/no/such:1") && message.contains("Pull"),
        "{message}"
    );

    // Mending the spec makes new pods right; the broken ones hold nothing and may be deleted.
    let patch = Patch::Merge(json!({"spec": {"image": "valkey/valkey:9.1"}}));
    cluster
        .untyped()
        .patch("lost", &PatchParams::default(), &patch)
        .await?;
    cluster.condition("UpToDate", "False", "OldTemplate").await?;
    let pods: Api<Pod> = Api::namespaced(space.client.clone(), &space.namespace);
    for pod in cluster.pods().await? {
        pods.delete(&pod.name_any(), &DeleteParams::default()).await?;
    }
    cluster.ready().await?;
    cluster.whole(3, 0).await?;
    Ok(())
}
