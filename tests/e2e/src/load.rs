//! Load from inside the cluster: `foreshard-load` in a pod.

use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use foreshard_load::Report;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{LogParams, PostParams};
use serde_json::json;

use crate::space::Space;
use crate::wait::{Seen, until};

/// The image the testbed makes; on another cluster, `LOAD_IMAGE` names yours.
fn image() -> String {
    std::env::var("LOAD_IMAGE").unwrap_or_else(|_| "foreshard/load:dev".to_owned())
}

/// A load that runs.
pub(crate) struct Load<'a> {
    space: &'a Space,
    pod: String,
    seconds: u64,
}

impl<'a> Load<'a> {
    /// Starts load on a cluster for some seconds, and waits until it is under way.
    pub(crate) async fn start(space: &'a Space, cluster: &str, seconds: u64, more: &[&str]) -> Result<Self> {
        let pod = format!(
            "load-{cluster}-{}",
            jiff::Timestamp::now().as_millisecond() % 100_000
        );
        let duration = format!("{seconds}s");
        let address = format!("{cluster}.{}.svc:6379", space.namespace);
        let mut arguments = vec![
            "run",
            "--json",
            "--progress",
            "--cluster",
            &address,
            "--duration",
            &duration,
            "--prefix",
            &pod,
        ];
        arguments.extend(more);
        let object: Pod = serde_json::from_value(json!({
            "metadata": {"name": pod, "namespace": space.namespace},
            "spec": {
                "restartPolicy": "Never",
                "automountServiceAccountToken": false,
                "securityContext": {"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}},
                "containers": [{
                    "name": "load", "image": image(), "args": arguments,
                    "securityContext": {"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}},
                }],
            },
        }))?;
        let api: Api<Pod> = Api::namespaced(space.client.clone(), &space.namespace);
        api.create(&PostParams::default(), &object)
            .await
            .context("starting the load")?;
        let load = Self { space, pod, seconds };
        load.phase(&["Running", "Succeeded", "Failed"], Duration::from_mins(1))
            .await?;
        Ok(load)
    }

    /// Waits for its end and returns its report. The report is checked for consistency, not for a verdict.
    pub(crate) async fn report(self) -> Result<Report> {
        // The end includes a verification that waits for unreadable keys.
        self.phase(
            &["Succeeded", "Failed"],
            Duration::from_secs(self.seconds) + Duration::from_mins(2),
        )
        .await?;
        let api: Api<Pod> = Api::namespaced(self.space.client.clone(), &self.space.namespace);
        let log = api
            .logs(&self.pod, &LogParams::default())
            .await
            .context("reading the load's report")?;
        let Some(start) = log
            .find("\n{")
            .map(|at| at + 1)
            .or_else(|| log.starts_with('{').then_some(0))
        else {
            bail!("the load ended without a report: {log}");
        };
        let text = log.get(start..).unwrap_or_default();
        let mut reports = serde_json::Deserializer::from_str(text).into_iter::<Report>();
        let report = reports
            .next()
            .context("no report")?
            .with_context(|| format!("unreadable report: {text}"))?;
        ensure!(report.writes.acknowledged > 0, "the load wrote nothing: {text}");
        Ok(report)
    }

    async fn phase(&self, wanted: &[&str], limit: Duration) -> Result<()> {
        let api: Api<Pod> = Api::namespaced(self.space.client.clone(), &self.space.namespace);
        until(
            &format!("pod {} to be {}", self.pod, wanted.join(" or ")),
            limit,
            || async {
                let phase = api
                    .get(&self.pod)
                    .await?
                    .status
                    .and_then(|status| status.phase)
                    .unwrap_or_default();
                Ok(Seen::when(wanted.contains(&phase.as_str()), phase))
            },
        )
        .await
    }
}

/// Fails unless every acknowledged write is there and no client saw an error.
pub(crate) fn flawless(report: &Report) -> Result<()> {
    intact(report)?;
    ensure!(
        report.errors.is_empty(),
        "clients saw errors: {:?}",
        report.errors
    );
    ensure!(
        report.ledger.lost == 0,
        "{} acknowledged writes are gone: {:?}",
        report.ledger.lost,
        report.ledger.samples
    );
    Ok(())
}

/// Fails unless every write that a replica had acknowledged is there, whole.
pub(crate) fn intact(report: &Report) -> Result<()> {
    let ledger = &report.ledger;
    ensure!(
        ledger.lost_replicated == 0,
        "{} replicated writes are gone: {:?}",
        ledger.lost_replicated,
        ledger.samples
    );
    ensure!(
        ledger.corrupt == 0 && ledger.unreadable == 0,
        "{} corrupt, {} unreadable",
        ledger.corrupt,
        ledger.unreadable
    );
    Ok(())
}
