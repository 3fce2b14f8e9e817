use std::sync::Arc;

use foreshard_api::{ValkeyCluster, directives};
use foreshard_plan::cluster::Wish;
use k8s_openapi::api::apps::v1::StatefulSet;
use kube::core::DynamicObject;
use serde_json::json;

use super::{budget, config, owner, shard, templates, wanted, would_shrink};

const WISH: Wish = Wish {
    shards: 3,
    members_per_shard: 2,
};

fn cluster(config: &serde_json::Value) -> ValkeyCluster {
    serde_json::from_value(json!({
        "apiVersion": "foreshard.io/v1alpha1", "kind": "ValkeyCluster",
        "metadata": {"name": "shop", "namespace": "prod", "uid": "1"},
        "spec": {
            "image": "valkey/valkey:9.1", "config": config,
            "resources": {"limits": {"memory": "1Gi"}},
        },
    }))
    .unwrap()
}

fn config_file(cluster: &ValkeyCluster) -> String {
    config::config_map(cluster).data.unwrap()[config::CONFIG_FILE].clone()
}

#[test]
fn the_configuration_ends_with_what_is_ours() {
    let text = config_file(&cluster(
        &json!({"maxmemory-policy": "allkeys-lru", "notify-keyspace-events": ""}),
    ));
    insta::assert_snapshot!(text);
    let ours: Vec<&str> = text
        .lines()
        .filter_map(|line| line.split(' ').next())
        .filter(|name| directives::is_owned(name))
        .collect();
    let last: Vec<&str> = text
        .lines()
        .rev()
        .take(ours.len())
        .filter_map(|line| line.split(' ').next())
        .collect();
    assert!(
        last.iter().all(|name| directives::is_owned(name)),
        "a line of the user's comes after ours: {text}"
    );
}

#[test]
fn the_user_decides_about_memory_when_asked_to() {
    assert!(config_file(&cluster(&json!({}))).contains("maxmemory 805306368\n"));
    assert!(config_file(&cluster(&json!({"maxmemory": "100mb"}))).contains("maxmemory 100mb\n"));
}

#[test]
fn a_shard_looks_like_this() {
    let set = shard::stateful_set(&cluster(&json!({})), 1, WISH, "abc");
    insta::assert_snapshot!(serde_json::to_string_pretty(&set).unwrap());
}

#[test]
fn the_stamp_follows_what_pods_are_made_from_and_nothing_else() {
    let stamp = |set: &StatefulSet| shard::stamp(set).unwrap();
    let plain = stamp(&shard::stateful_set(&cluster(&json!({})), 0, WISH, "abc"));
    assert_eq!(
        plain,
        stamp(&shard::stateful_set(&cluster(&json!({})), 0, WISH, "abc"))
    );
    assert_ne!(
        plain,
        stamp(&shard::stateful_set(&cluster(&json!({})), 0, WISH, "abd"))
    );
    let bigger = Wish {
        members_per_shard: 5,
        ..WISH
    };
    assert_eq!(
        plain,
        stamp(&shard::stateful_set(&cluster(&json!({})), 0, bigger, "abc"))
    );
    let mut other = cluster(&json!({}));
    other.spec.image = "valkey/valkey:8.1".into();
    assert_ne!(plain, stamp(&shard::stateful_set(&other, 0, WISH, "abc")));
}

#[test]
fn a_cluster_without_a_copy_to_spare_may_not_lose_a_member() {
    let most = |may_lose_one| {
        let budget = budget::disruption_budget(&cluster(&json!({})), may_lose_one);
        serde_json::to_value(budget.spec.unwrap().max_unavailable).unwrap()
    };
    assert_eq!((most(false), most(true)), (json!(0), json!(1)));
}

#[test]
fn nothing_is_ever_taken_away() {
    let cluster = cluster(&json!({}));
    let owner = owner(&cluster);
    let live = |shard: u32| {
        let mut set = shard::stateful_set(&cluster, shard, WISH, "abc");
        set.metadata.owner_references = Some(vec![owner.clone()]);
        let mut object: DynamicObject = serde_json::from_value(serde_json::to_value(set).unwrap()).unwrap();
        object.types = Some(kube::core::TypeMeta {
            api_version: "apps/v1".into(),
            kind: "StatefulSet".into(),
        });
        Arc::new(object)
    };
    assert_eq!(would_shrink(&[live(2)], &owner, WISH), None);
    assert!(
        would_shrink(&[live(3)], &owner, WISH)
            .unwrap()
            .contains("spec.shards")
    );
    let fewer = Wish {
        members_per_shard: 1,
        ..WISH
    };
    assert!(
        would_shrink(&[live(0)], &owner, fewer)
            .unwrap()
            .contains("spec.replicasPerShard")
    );
}

#[test]
fn a_cluster_is_made_of_these() {
    let cluster = cluster(&json!({}));
    let objects = wanted(&cluster, WISH, true, &owner(&cluster)).unwrap();
    let names: Vec<String> = objects
        .iter()
        .map(|object| format!("{} {}", object.resource.kind, object.name))
        .collect();
    insta::assert_snapshot!(names.join("\n"), @r"
    ConfigMap shop-config
    Service shop-headless
    Service shop
    PodDisruptionBudget shop
    StatefulSet shop-0
    StatefulSet shop-1
    StatefulSet shop-2
    ");
    assert_eq!(templates(&cluster, WISH).len(), 3);
}
