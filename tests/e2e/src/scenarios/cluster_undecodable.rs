use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};

use crate::cluster::Cluster;
use crate::space::Space;
use crate::wait::{Seen, until};

const CRD: &str = "valkeyclusters.foreshard.io";
const SPEC_SCHEMA: &str = "/0/schema/openAPIV3Schema/properties/spec";

/// An object that cannot be read as its kind (stored under a looser schema) says so itself, and its neighbours are
/// looked after as before.
pub(crate) async fn run(space: Space) -> Result<()> {
    let good = Cluster::create(&space, "good", Cluster::spec(&json!({"replicasPerShard": 0}))).await?;
    good.ready().await?;

    let crds: Api<CustomResourceDefinition> = Api::all(space.client.clone());
    let original = serde_json::to_value(crds.get(CRD).await?.spec.versions)?;
    let mut loose = original.clone();
    let schema = loose
        .pointer_mut(SPEC_SCHEMA)
        .context("the CRD has no schema for spec")?;
    *schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    set_versions(&crds, &loose).await?;
    let outcome = with_unreadable(&space, &good).await;
    set_versions(&crds, &original).await?;
    outcome
}

async fn with_unreadable(space: &Space, good: &Cluster<'_>) -> Result<()> {
    let bad = until(
        "the looser schema to be in force",
        Duration::from_secs(30),
        || async {
            Ok(
                match Cluster::create(space, "bad", json!({"shards": 3, "replicasPerShard": "one"})).await {
                    Ok(cluster) => Seen::Yes(cluster),
                    Err(error) => Seen::NotYet(error.to_string()),
                },
            )
        },
    )
    .await?;
    let message = bad.condition("Degraded", "True", "Undecodable").await?;
    ensure!(message.contains("one"), "{message}");

    // The neighbour is still looked after: what is taken from it comes back.
    let services: Api<Service> = Api::namespaced(space.client.clone(), &space.namespace);
    services.delete("good", &DeleteParams::default()).await?;
    until("the Service to come back", Duration::from_secs(30), || async {
        Ok(Seen::when(
            services.get_opt("good").await?.is_some(),
            "it is not there",
        ))
    })
    .await?;
    good.ready().await?;
    bad.untyped().delete("bad", &DeleteParams::default()).await?;
    Ok(())
}

async fn set_versions(crds: &Api<CustomResourceDefinition>, versions: &Value) -> Result<()> {
    let patch = Patch::Merge(json!({"spec": {"versions": versions}}));
    crds.patch(CRD, &PatchParams::default(), &patch)
        .await
        .context("changing the schema")?;
    Ok(())
}
