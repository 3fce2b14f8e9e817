use std::time::Duration;

use anyhow::{Result, ensure};
use foreshard_testbed::paths::Paths;
use k8s_openapi::api::rbac::v1::ClusterRoleBinding;
use kube::Api;
use serde_json::json;
use tokio::process::Command;

use crate::cluster::Cluster;
use crate::operator;
use crate::space::Space;

/// How long a namespace that is nobody's business is watched for things happening in it.
const LEFT_ALONE: Duration = Duration::from_secs(15);

/// Installed for one namespace, with roles in that namespace only, the operator serves it and leaves others alone; and
/// installed as before, it looks after the others again.
pub(crate) async fn run(space: Space) -> Result<()> {
    let other = Space::open(space.client.clone(), "operator-namespaced-other").await?;
    let only = format!("watchNamespaces={{{}}}", space.namespace);
    helm(&[
        "upgrade",
        "foreshard",
        "charts/foreshard",
        "--reuse-values",
        "--set",
        &only,
    ])
    .await?;
    let outcome = with_one(&space, &other).await;
    helm(&["rollback", "foreshard"]).await?;
    let outcome = match outcome {
        Ok(unwatched) => unwatched.ready().await.map(|_| ()),
        Err(error) => Err(error),
    };
    other.close().await?;
    outcome
}

/// Returns the cluster that was left alone.
async fn with_one<'a>(space: &Space, other: &'a Space) -> Result<Cluster<'a>> {
    let bindings: Api<ClusterRoleBinding> = Api::all(space.client.clone());
    ensure!(
        bindings.get_opt("foreshard").await?.is_none(),
        "it still has rights in all namespaces"
    );
    operator::led(&space.client, Duration::from_mins(1)).await?;
    let unwatched = Cluster::create(other, "alone", Cluster::spec(&json!({"replicasPerShard": 0}))).await?;
    let watched = Cluster::create(space, "shop", Cluster::spec(&json!({"replicasPerShard": 1}))).await?;
    watched.ready().await?;
    watched.whole(3, 1).await?;
    tokio::time::sleep(LEFT_ALONE).await;
    let status = unwatched.api().get("alone").await?.status;
    ensure!(
        status.is_none(),
        "a cluster in a namespace it does not look after was touched: {status:?}"
    );
    Ok(unwatched)
}

/// Changes the installed release and waits until it runs.
async fn helm(arguments: &[&str]) -> Result<()> {
    let paths = Paths::find()?;
    let output = Command::new(paths.program("helm"))
        .current_dir(paths.root())
        .args(arguments)
        .args(["--namespace", operator::NAMESPACE, "--wait", "--timeout", "60s"])
        .output()
        .await?;
    let words = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "helm {}: {words}", arguments.join(" "));
    Ok(())
}
