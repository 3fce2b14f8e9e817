//! The objects a cluster is made of. Pure: a cluster in, objects out.

mod budget;
mod config;
mod services;
mod shard;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use foreshard_api::{ValkeyCluster, labels};
use foreshard_kube::apply::{self, Wanted};
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
    may_lose_one: bool,
    owner: &OwnerReference,
) -> Result<Vec<Wanted>, serde_json::Error> {
    let config = config::config_map(cluster);
    let config_hash = config::hash(&config);
    let mut all = vec![
        Wanted::new(config, owner)?,
        Wanted::new(services::headless(cluster), owner)?,
        Wanted::new(services::client(cluster), owner)?,
        Wanted::new(budget::disruption_budget(cluster, may_lose_one), owner)?,
    ];
    for shard in 0..wish.shards {
        all.push(Wanted::new(
            shard::stateful_set(cluster, shard, wish, &config_hash),
            owner,
        )?);
    }
    Ok(all)
}

/// The stamp of the pod template of each shard: pods that carry another were made from an earlier one.
pub(super) fn templates(cluster: &ValkeyCluster, wish: Wish) -> BTreeMap<u32, String> {
    let config_hash = config::hash(&config::config_map(cluster));
    let stamp = |shard| shard::stamp(&shard::stateful_set(cluster, shard, wish, &config_hash));
    (0..wish.shards)
        .filter_map(|shard| Some((shard, stamp(shard)?)))
        .collect()
}

/// A reason why the spec cannot be acted upon without taking members away, which this version cannot do safely.
/// Admission refuses such a change; this is for a CRD without the rule.
pub(super) fn would_shrink(
    children: &[Arc<DynamicObject>],
    owner: &OwnerReference,
    wish: Wish,
) -> Option<String> {
    let sets = children
        .iter()
        .filter(|child| is_set(child) && apply::is_ours(child, owner));
    sets.into_iter().find_map(|set| {
        let shard: u32 = set.labels().get(labels::SHARD)?.parse().ok()?;
        let members = set.data.pointer("/spec/replicas").and_then(serde_json::Value::as_u64)?;
        if shard >= wish.shards {
            Some(format!("spec.shards: shard {shard} is there and cannot be taken away by this version; raise it again"))
        } else if members > u64::from(wish.members_per_shard) {
            let name = set.name_any();
            Some(format!("spec.replicasPerShard: {name} has {members} members and none can be taken away by this version; raise it again"))
        } else {
            None
        }
    })
}

/// The uids of the cluster's own StatefulSets: whose pods are its members.
pub(super) fn set_ids(children: &[Arc<DynamicObject>], owner: &OwnerReference) -> BTreeSet<String> {
    let sets = children
        .iter()
        .filter(|child| is_set(child) && apply::is_ours(child, owner));
    sets.filter_map(|set| set.uid()).collect()
}

/// The host name a pod's server announces.
pub(super) fn announced_name(cluster: &ValkeyCluster, pod: &str) -> String {
    format!(
        "{pod}.{}.{}.svc",
        headless_name(cluster),
        cluster.namespace().unwrap_or_default()
    )
}

fn is_set(child: &DynamicObject) -> bool {
    child
        .types
        .as_ref()
        .is_some_and(|types| types.kind == "StatefulSet")
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
