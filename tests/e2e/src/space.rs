//! A namespace of a scenario's own.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result};
use foreshard_testbed::paths::Paths;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{DeleteParams, ObjectMeta, PostParams};
use kube::{Api, Client};

use crate::wait::{Seen, until};

/// Whether the cluster is the caller's own rather than the testbed: then nothing may reach into the nodes.
pub(crate) fn is_current_cluster() -> bool {
    std::env::var("CLUSTER").is_ok_and(|cluster| cluster == "current")
}

/// Where a scenario works.
#[derive(Clone)]
pub(crate) struct Space {
    /// The API server.
    pub(crate) client: Client,
    /// The namespace, at Pod Security level `restricted`.
    pub(crate) namespace: String,
    /// Where evidence of a failure goes.
    pub(crate) evidence: PathBuf,
}

impl Space {
    /// Makes a namespace for a scenario.
    pub(crate) async fn open(client: Client, scenario: &str) -> Result<Self> {
        let namespace = format!(
            "e2e-{scenario}-{}",
            jiff::Timestamp::now().as_millisecond() % 1_000_000
        );
        let labels = [
            ("pod-security.kubernetes.io/enforce", "restricted"),
            ("foreshard.io/e2e", scenario),
        ];
        let object = Namespace {
            metadata: ObjectMeta {
                name: Some(namespace.clone()),
                labels: Some(
                    labels
                        .into_iter()
                        .map(|(key, value)| (key.to_owned(), value.to_owned()))
                        .collect(),
                ),
                ..ObjectMeta::default()
            },
            ..Namespace::default()
        };
        Api::all(client.clone())
            .create(&PostParams::default(), &object)
            .await
            .context("making a namespace")?;
        let evidence = Paths::find()?.root().join("target/e2e").join(scenario);
        if evidence.exists() {
            std::fs::remove_dir_all(&evidence)?;
        }
        Ok(Self {
            client,
            namespace,
            evidence,
        })
    }

    /// Removes the namespace and all in it.
    pub(crate) async fn close(&self) -> Result<()> {
        let api: Api<Namespace> = Api::all(self.client.clone());
        api.delete(&self.namespace, &DeleteParams::background())
            .await
            .context("deleting the namespace")?;
        until("the namespace to go", Duration::from_mins(2), || async {
            let there = api.get_opt(&self.namespace).await?;
            Ok(Seen::when(there.is_none(), "it is still there"))
        })
        .await
    }
}
