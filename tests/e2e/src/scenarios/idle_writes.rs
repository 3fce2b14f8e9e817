use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use foreshard_testbed::paths::Paths;
use k8s_openapi::api::events::v1::Event;
use kube::api::ListParams;
use kube::core::DynamicObject;
use kube::discovery::ApiResource;
use kube::{Api, ResourceExt};
use serde_json::json;

use crate::cluster::Cluster;
use crate::operator;
use crate::space::{Space, is_current_cluster};
use crate::wait::{Seen, until};

/// How long nothing may be written.
const WATCHED: Duration = Duration::from_mins(3);

/// A healthy cluster: for three minutes the operator writes nothing but its lease. Seen from three sides: the
/// objects' versions, the operator's own count, and the API server's audit log where the testbed keeps one.
pub(crate) async fn run(space: Space) -> Result<()> {
    let cluster = Cluster::create(&space, "calm", Cluster::spec(&json!({"replicasPerShard": 1}))).await?;
    cluster.ready().await?;
    settled(&space).await?;

    let leader = operator::led(&space.client, Duration::from_secs(30)).await?;
    let writes_before = operator::sum(
        &operator::metrics(&space.client, &leader).await?,
        "foreshard_api_writes_total",
    )?;
    let (versions_before, audit_before) = (versions(&space).await?, audited()?.len());
    tokio::time::sleep(WATCHED).await;
    let versions_after = versions(&space).await?;
    let writes = operator::sum(
        &operator::metrics(&space.client, &leader).await?,
        "foreshard_api_writes_total",
    )? - writes_before;
    ensure!(writes == 0.0, "the operator counted {writes} writes");
    ensure!(
        versions_before == versions_after,
        "objects changed: {versions_before:?} and {versions_after:?}"
    );
    let audit: Vec<String> = audited()?.split_off(audit_before);
    ensure!(audit.is_empty(), "the API server saw writes: {audit:#?}");
    println!("idle-writes: 0 writes in {} s", WATCHED.as_secs());
    Ok(())
}

/// Readiness of the last pods and the bookkeeping of other controllers come to rest.
async fn settled(space: &Space) -> Result<()> {
    until("the objects to come to rest", Duration::from_mins(1), || async {
        let before = versions(space).await?;
        tokio::time::sleep(Duration::from_secs(5)).await;
        Ok(Seen::when(before == versions(space).await?, "they still change"))
    })
    .await
}

/// The version of everything the operator could write for the cluster.
async fn versions(space: &Space) -> Result<BTreeMap<String, String>> {
    let kinds = [
        ("foreshard.io", "v1alpha1", "ValkeyCluster"),
        ("apps", "v1", "StatefulSet"),
        ("", "v1", "Service"),
        ("", "v1", "ConfigMap"),
        ("policy", "v1", "PodDisruptionBudget"),
    ];
    let mut versions = BTreeMap::new();
    for (group, version, kind) in kinds {
        let resource = ApiResource::from_gvk(&kube::core::GroupVersionKind::gvk(group, version, kind));
        let api: Api<DynamicObject> = Api::namespaced_with(space.client.clone(), &space.namespace, &resource);
        for object in api.list(&ListParams::default()).await? {
            versions.insert(
                format!("{kind}/{}", object.name_any()),
                object.resource_version().unwrap_or_default(),
            );
        }
    }
    let events: Api<Event> = Api::namespaced(space.client.clone(), &space.namespace);
    for event in events.list(&ListParams::default()).await? {
        if event.reporting_controller.as_deref() == Some("foreshard") {
            versions.insert(
                format!("Event/{}", event.name_any()),
                event.resource_version().unwrap_or_default(),
            );
        }
    }
    Ok(versions)
}

/// Every write by the operator that the API server has noted, Lease renewals aside. Empty without an audit log.
fn audited() -> Result<Vec<String>> {
    let path = Paths::find()?.log("audit");
    if is_current_cluster() || !path.exists() {
        return Ok(Vec::new());
    }
    let text = std::fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
    let writes = text.lines().filter(|line| {
        line.contains("system:serviceaccount:foreshard-system:") && !line.contains("\"resource\":\"leases\"")
    });
    Ok(writes.map(str::to_owned).collect())
}
