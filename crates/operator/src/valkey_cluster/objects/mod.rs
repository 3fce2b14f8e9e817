//! The objects a cluster is made of. Pure: a cluster in, objects out.

mod config;
mod services;
mod shard;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use foreshard_api::{ValkeyCluster, labels};
use foreshard_kube::apply::Wanted;
use foreshard_plan::cluster::Wish;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::ObjectMeta;
use kube::core::DynamicObject;
use kube::{Resource, ResourceExt};

/// The name of the container that runs the server.
pub(super) const CONTAINER: &str = "store";

/// The reference that makes Kubernetes remove an object with its cluster.
///
/// `blockOwnerDeletion` stays away: clusters that enforce it would ask for more rights, and nothing here depends on
/// the order of deletion.
pub(super) fn owner(cluster: &ValkeyCluster) -> OwnerReference {
    OwnerReference {
        api_version: ValkeyCluster::api_version(&()).into_owned(),
        kind: ValkeyCluster::kind(&()).into_owned(),
        name: cluster.name_any(),
        uid: cluster.uid().unwrap_or_default(),
        controller: Some(true),
        block_owner_deletion: None,
    }
}

/// Everything that should exist for a cluster.
pub(super) fn wanted(
    cluster: &ValkeyCluster,
    wish: Wish,
    owner: &OwnerReference,
) -> Result<Vec<Wanted>, serde_json::Error> {
    let config = config::config_map(cluster);
    let config_hash = config::hash(&config);
    let mut all = vec![
        Wanted::new(config, owner)?,
        Wanted::new(services::headless(cluster), owner)?,
        Wanted::new(services::client(cluster), owner)?,
    ];
    for shard in 0..wish.shards {
        all.push(Wanted::new(
            shard::disruption_budget(cluster, shard, wish),
            owner,
        )?);
        all.push(Wanted::new(
            shard::stateful_set(cluster, shard, wish, &config_hash),
            owner,
        )?);
    }
    Ok(all)
}

/// The template each shard's pods should be made from, as far as each StatefulSet says.
pub(super) fn template_of(children: &[Arc<DynamicObject>]) -> impl Fn(u32) -> Option<String> + use<> {
    let templates: BTreeMap<u32, String> = children
        .iter()
        .filter(|child| {
            child
                .types
                .as_ref()
                .is_some_and(|types| types.kind == "StatefulSet")
        })
        .filter_map(|child| {
            let shard = child.labels().get(labels::SHARD)?.parse().ok()?;
            let annotations = child.data.pointer("/spec/template/metadata/annotations")?;
            Some((shard, annotations.get(labels::TEMPLATE)?.as_str()?.to_owned()))
        })
        .collect();
    move |shard| templates.get(&shard).cloned()
}

/// The metadata of an object of the cluster.
fn meta(cluster: &ValkeyCluster, name: String) -> ObjectMeta {
    ObjectMeta {
        name: Some(name),
        namespace: cluster.namespace(),
        labels: Some(labels::cluster_labels(&cluster.name_any())),
        ..ObjectMeta::default()
    }
}

fn shard_name(cluster: &ValkeyCluster, shard: u32) -> String {
    format!("{}-{shard}", cluster.name_any())
}

fn config_name(cluster: &ValkeyCluster) -> String {
    format!("{}-config", cluster.name_any())
}

fn headless_name(cluster: &ValkeyCluster) -> String {
    format!("{}-headless", cluster.name_any())
}
