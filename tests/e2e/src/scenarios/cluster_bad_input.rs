use anyhow::{Result, bail, ensure};
use serde_json::{Value, json};

use crate::cluster::Cluster;
use crate::space::Space;

/// Every spec that cannot work is refused before it is stored, and the message names the field.
pub(crate) async fn run(space: Space) -> Result<()> {
    let long = "a".repeat(41);
    let cases: Vec<(&str, Value, &str)> = vec![
        ("two-shards", json!({"shards": 2}), "spec.shards"),
        ("too-many-shards", json!({"shards": 101}), "spec.shards"),
        (
            "too-many-pods",
            json!({"shards": 100, "replicasPerShard": 5}),
            "500 pods",
        ),
        (
            "too-many-replicas",
            json!({"replicasPerShard": 6}),
            "spec.replicasPerShard",
        ),
        ("shards-in-words", json!({"shards": "three"}), "spec.shards"),
        ("port", json!({"config": {"port": "1"}}), "spec.config"),
        ("dir", json!({"config": {"dir": "/"}}), "spec.config"),
        (
            "cluster-enabled",
            json!({"config": {"cluster-enabled": "no"}}),
            "spec.config",
        ),
        ("tls", json!({"config": {"tls-port": "1"}}), "spec.config"),
        (
            "second-line",
            json!({"config": {"hz": "10\nport 1"}}),
            "spec.config",
        ),
        (
            "odd-directive",
            json!({"config": {"HZ\nport": "1"}}),
            "spec.config",
        ),
        ("no-image", json!({"image": ""}), "spec.image"),
        (
            "bad-quantity",
            json!({"resources": {"limits": {"memory": "lots"}}}),
            "spec.resources",
        ),
        (&long, json!({}), "metadata.name"),
        ("9lives", json!({}), "metadata.name"),
        ("with.dot", json!({}), "metadata.name"),
    ];
    for (name, spec, field) in cases {
        match Cluster::create(&space, name, spec.clone()).await {
            Ok(_) => bail!("{name} was accepted: {spec}"),
            Err(error) => {
                let message = format!("{error:#}");
                ensure!(
                    message.contains(field),
                    "{name}: the refusal does not name {field}: {message}"
                );
            }
        }
    }
    let cluster = Cluster::create(&space, "fixed", Cluster::spec(&json!({"replicasPerShard": 0}))).await?;
    let patch = kube::api::Patch::Merge(json!({"spec": {"shards": 4}}));
    let Err(error) = cluster
        .untyped()
        .patch("fixed", &kube::api::PatchParams::default(), &patch)
        .await
    else {
        bail!("a change of spec.shards was accepted");
    };
    ensure!(error.to_string().contains("spec.shards"), "{error}");
    Ok(())
}
