//! How much of a cluster others may take away.

use foreshard_api::{ValkeyCluster, labels};
use k8s_openapi::api::policy::v1::{PodDisruptionBudget, PodDisruptionBudgetSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::ResourceExt;

use super::meta;

/// One member of the whole cluster while every copy is in sync, else none.
///
/// One budget for all shards and not one each: a drain evicts at the same moment whatever it may, and a node may hold
/// the primaries of most shards. And not fixed at one: Kubernetes counts a pod as there when its port answers, long
/// before its copy is whole.
pub(super) fn disruption_budget(cluster: &ValkeyCluster, may_lose_one: bool) -> PodDisruptionBudget {
    let name = cluster.name_any();
    let spec = PodDisruptionBudgetSpec {
        max_unavailable: Some(IntOrString::Int(may_lose_one.into())),
        selector: Some(LabelSelector {
            match_labels: Some(labels::cluster_selector(&name)),
            ..LabelSelector::default()
        }),
        ..PodDisruptionBudgetSpec::default()
    };
    PodDisruptionBudget {
        metadata: meta(cluster, name),
        spec: Some(spec),
        ..PodDisruptionBudget::default()
    }
}
