//! Labels and annotations on the objects Foreshard makes.

use std::collections::BTreeMap;

/// `app.kubernetes.io/name`.
pub const NAME: &str = "app.kubernetes.io/name";
/// `app.kubernetes.io/instance`: the name of the custom resource.
pub const INSTANCE: &str = "app.kubernetes.io/instance";
/// `app.kubernetes.io/managed-by`: every watch of the operator filters by it.
pub const MANAGED_BY: &str = "app.kubernetes.io/managed-by";
/// `app.kubernetes.io/component`.
pub const COMPONENT: &str = "app.kubernetes.io/component";
/// The value of [`MANAGED_BY`].
pub const MANAGER: &str = "foreshard";
/// The cluster an object belongs to.
pub const CLUSTER: &str = "foreshard.io/cluster";
/// The shard a pod or StatefulSet belongs to.
pub const SHARD: &str = "foreshard.io/shard";
/// The hash of what was last applied: tells that our own wish changed, when a field was dropped from it.
pub const APPLIED: &str = "foreshard.io/applied";
/// The hash of the pod template a pod was made from.
pub const TEMPLATE: &str = "foreshard.io/template";

/// The selector of everything the operator watches.
#[must_use]
pub fn watched() -> String {
    format!("{MANAGED_BY}={MANAGER}")
}

/// The labels that select the pods of a cluster. They never change during a cluster's life.
#[must_use]
pub fn cluster_selector(cluster: &str) -> BTreeMap<String, String> {
    [(MANAGED_BY, MANAGER), (CLUSTER, cluster)]
        .into_iter()
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .collect()
}

/// The labels that select the pods of one shard.
#[must_use]
pub fn shard_selector(cluster: &str, shard: u32) -> BTreeMap<String, String> {
    let mut labels = cluster_selector(cluster);
    labels.insert(SHARD.to_owned(), shard.to_string());
    labels
}

/// The labels of every object of a cluster.
#[must_use]
pub fn cluster_labels(cluster: &str) -> BTreeMap<String, String> {
    let mut labels = cluster_selector(cluster);
    for (key, value) in [(NAME, "valkey"), (INSTANCE, cluster), (COMPONENT, "cluster")] {
        labels.insert(key.to_owned(), value.to_owned());
    }
    labels
}

/// Renders labels as a selector string, as in `status.selector`.
#[must_use]
pub fn selector_string(labels: &BTreeMap<String, String>) -> String {
    let pairs: Vec<String> = labels
        .iter()
        .map(|(key, value)| format!("{key}={value}"))
        .collect();
    pairs.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_selector_is_part_of_the_labels_so_that_it_selects_what_we_make() {
        let labels = cluster_labels("shop");
        assert!(
            cluster_selector("shop")
                .iter()
                .all(|(key, value)| labels.get(key) == Some(value))
        );
    }

    #[test]
    fn a_selector_reads_as_kubectl_wants_it() {
        assert_eq!(
            selector_string(&shard_selector("shop", 2)),
            "app.kubernetes.io/managed-by=foreshard,foreshard.io/cluster=shop,foreshard.io/shard=2"
        );
    }
}
