//! The operator under test.

use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, ListParams, LogParams, Patch, PatchParams};
use kube::{Api, Client, ResourceExt};

use crate::wait::{Seen, until};

/// Where it is installed.
pub(crate) const NAMESPACE: &str = "foreshard-system";
/// The Deployment, and the Lease.
const NAME: &str = "foreshard";

/// Its running pods, oldest first.
pub(crate) async fn pods(client: &Client) -> Result<Vec<String>> {
    let api: Api<Pod> = Api::namespaced(client.clone(), NAMESPACE);
    let mut pods = api
        .list(&ListParams::default().labels("app.kubernetes.io/name=foreshard"))
        .await?
        .items;
    pods.retain(|pod| pod.metadata.deletion_timestamp.is_none());
    pods.sort_by_key(|pod| pod.metadata.creation_timestamp.clone());
    Ok(pods.iter().map(ResourceExt::name_any).collect())
}

/// Kills a pod at once, without a chance to tidy up.
pub(crate) async fn kill(client: &Client, pod: &str) -> Result<()> {
    let api: Api<Pod> = Api::namespaced(client.clone(), NAMESPACE);
    let parameters = DeleteParams {
        grace_period_seconds: Some(0),
        ..DeleteParams::default()
    };
    api.delete(pod, &parameters)
        .await
        .map(|_| ())
        .with_context(|| format!("killing {pod}"))
}

/// Sets the number of instances and waits until they are there.
pub(crate) async fn scale(client: &Client, instances: i32) -> Result<()> {
    let api: Api<Deployment> = Api::namespaced(client.clone(), NAMESPACE);
    let patch = serde_json::json!({"spec": {"replicas": instances}});
    api.patch(NAME, &PatchParams::default(), &Patch::Merge(&patch))
        .await
        .context("scaling the operator")?;
    until(
        &format!("{instances} operators to be ready"),
        Duration::from_mins(1),
        || async {
            let status = api.get(NAME).await?.status.unwrap_or_default();
            let (ready, all) = (status.ready_replicas.unwrap_or(0), status.replicas.unwrap_or(0));
            Ok(Seen::when(
                ready == instances && all == instances,
                format!("{ready} of {all} ready"),
            ))
        },
    )
    .await
}

/// Who holds the lease.
pub(crate) async fn leader(client: &Client) -> Result<String> {
    let api: Api<Lease> = Api::namespaced(client.clone(), NAMESPACE);
    let lease = api.get(NAME).await.context("reading the lease")?;
    Ok(lease
        .spec
        .and_then(|spec| spec.holder_identity)
        .unwrap_or_default())
}

/// Waits until the lease is held by one of the running pods.
pub(crate) async fn led(client: &Client, limit: Duration) -> Result<String> {
    until("an operator to hold the lease", limit, || async {
        let (holder, pods) = (leader(client).await?, pods(client).await?);
        Ok(if pods.contains(&holder) {
            Seen::Yes(holder)
        } else {
            Seen::NotYet(format!("{holder:?} of {pods:?}"))
        })
    })
    .await
}

/// How often a pod's container was restarted.
pub(crate) async fn restarts(client: &Client, pod: &str) -> Result<i32> {
    let api: Api<Pod> = Api::namespaced(client.clone(), NAMESPACE);
    let statuses = api
        .get(pod)
        .await?
        .status
        .and_then(|status| status.container_statuses)
        .unwrap_or_default();
    Ok(statuses.iter().map(|status| status.restart_count).sum())
}

/// What the process before the present one logged.
pub(crate) async fn previous_log(client: &Client, pod: &str) -> Result<String> {
    let api: Api<Pod> = Api::namespaced(client.clone(), NAMESPACE);
    let parameters = LogParams {
        previous: true,
        ..LogParams::default()
    };
    api.logs(pod, &parameters)
        .await
        .with_context(|| format!("reading the earlier log of {pod}"))
}

/// An instance's metrics, through the API server.
pub(crate) async fn metrics(client: &Client, pod: &str) -> Result<String> {
    let path = format!("/api/v1/namespaces/{NAMESPACE}/pods/{pod}:8080/proxy/metrics");
    let request = http::Request::get(path).body(Vec::new())?;
    client
        .request_text(request)
        .await
        .with_context(|| format!("reading the metrics of {pod}"))
}

/// The sum of a metric over its labels.
pub(crate) fn sum(metrics: &str, name: &str) -> Result<f64> {
    let mut found = false;
    let mut total = 0.0;
    for line in metrics.lines().filter(|line| !line.starts_with('#')) {
        let (series, value) = line.rsplit_once(' ').unwrap_or((line, ""));
        if series == name
            || series
                .strip_prefix(name)
                .is_some_and(|rest| rest.starts_with('{'))
        {
            found = true;
            total += value.parse::<f64>().with_context(|| format!("reading {line}"))?;
        }
    }
    if !found && !metrics.contains("# EOF") {
        bail!("the metrics are cut off: {metrics}");
    }
    Ok(total)
}
