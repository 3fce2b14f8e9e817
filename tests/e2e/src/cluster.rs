//! A `ValkeyCluster` under test.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use foreshard_api::{SLOTS, ValkeyCluster, labels};
use foreshard_plan::{NodeView, SlotSet};
use foreshard_store::dial::Direct;
use foreshard_store::{NodeAdmin, RedisAdmin, Timeouts};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, ListParams, PostParams};
use kube::core::DynamicObject;
use kube::discovery::ApiResource;
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

use crate::space::Space;
use crate::wait::{Seen, until};

/// How long a small cluster may take to be Ready on a busy two-core machine.
pub(crate) const READY_WITHIN: Duration = Duration::from_mins(2);

/// A cluster by name in a space.
pub(crate) struct Cluster<'a> {
    space: &'a Space,
    /// Its name.
    pub(crate) name: String,
}

/// A member as it was seen by asking it.
pub(crate) struct Asked {
    /// The pod.
    pub(crate) pod: String,
    /// Its shard.
    pub(crate) shard: String,
    /// The Kubernetes node it runs on.
    pub(crate) node: String,
    /// What it said.
    pub(crate) view: NodeView,
}

impl<'a> Cluster<'a> {
    /// A spec that fits many times on a small machine, with `more` merged in.
    pub(crate) fn spec(more: &Value) -> Value {
        let mut spec = json!({"resources": {"requests": {"cpu": "10m", "memory": "32Mi"}, "limits": {"memory": "256Mi"}}});
        if let (Value::Object(spec), Value::Object(more)) = (&mut spec, more) {
            spec.extend(more.clone());
        }
        spec
    }

    /// One that is there.
    pub(crate) fn named(space: &'a Space, name: &str) -> Self {
        Self {
            space,
            name: name.to_owned(),
        }
    }

    /// Creates one.
    pub(crate) async fn create(space: &'a Space, name: &str, spec: Value) -> Result<Self> {
        let cluster = Self::named(space, name);
        let object = json!({
            "apiVersion": "foreshard.io/v1alpha1", "kind": "ValkeyCluster",
            "metadata": {"name": name, "namespace": space.namespace}, "spec": spec,
        });
        let object: DynamicObject = serde_json::from_value(object)?;
        cluster.untyped().create(&PostParams::default(), &object).await?;
        Ok(cluster)
    }

    /// Its API, typed.
    pub(crate) fn api(&self) -> Api<ValkeyCluster> {
        Api::namespaced(self.space.client.clone(), &self.space.namespace)
    }

    /// Its API, for objects that do not fit the type.
    pub(crate) fn untyped(&self) -> Api<DynamicObject> {
        let resource = ApiResource::erase::<ValkeyCluster>(&());
        Api::namespaced_with(self.space.client.clone(), &self.space.namespace, &resource)
    }

    /// Waits until it is Ready at its current generation; says how long that took.
    pub(crate) async fn ready(&self) -> Result<Duration> {
        let began = Instant::now();
        let api = self.api();
        until(
            &format!("ValkeyCluster {} to be Ready", self.name),
            READY_WITHIN,
            || async {
                let cluster = api.get(&self.name).await?;
                let status = cluster.status.clone().unwrap_or_default();
                let current = Some(status.observed_generation) == cluster.metadata.generation;
                let ready = status
                    .conditions
                    .iter()
                    .any(|c| c.type_ == "Ready" && c.status == "True");
                Ok(Seen::when(
                    ready && current,
                    format!("{:?}: {}", status.phase, status.message),
                ))
            },
        )
        .await?;
        Ok(began.elapsed())
    }

    /// Waits until it is Ready *and* whole on the members themselves: a status may still be from before a fault.
    pub(crate) async fn settled(&self) -> Result<()> {
        let spec = self.api().get(&self.name).await?.spec;
        let (shards, replicas) = (
            usize::try_from(spec.shards)?,
            usize::try_from(spec.replicas_per_shard)?,
        );
        until(
            &format!("ValkeyCluster {} to be whole", self.name),
            READY_WITHIN,
            || async {
                self.ready().await?;
                Ok(match self.whole(shards, replicas).await {
                    Ok(_) => Seen::Yes(()),
                    Err(error) => Seen::NotYet(format!("{error:#}")),
                })
            },
        )
        .await
    }

    /// Waits for a condition to have a status and a reason, and returns its message.
    pub(crate) async fn condition(&self, kind: &str, status: &str, reason: &str) -> Result<String> {
        let api = self.untyped();
        until(
            &format!("{kind}={status} ({reason}) on {}", self.name),
            READY_WITHIN,
            || async {
                let object = api.get(&self.name).await?;
                let conditions = object
                    .data
                    .pointer("/status/conditions")
                    .and_then(Value::as_array)
                    .cloned()
                    .unwrap_or_default();
                let found = conditions.iter().find(|condition| condition["type"] == kind);
                Ok(match found {
                    Some(condition) if condition["status"] == status && condition["reason"] == reason => {
                        Seen::Yes(condition["message"].as_str().unwrap_or_default().to_owned())
                    }
                    other => {
                        Seen::NotYet(other.map_or_else(|| "no such condition".to_owned(), Value::to_string))
                    }
                })
            },
        )
        .await
    }

    /// Its pods.
    pub(crate) async fn pods(&self) -> Result<Vec<Pod>> {
        let api: Api<Pod> = Api::namespaced(self.space.client.clone(), &self.space.namespace);
        let selector = labels::selector_string(&labels::cluster_selector(&self.name));
        Ok(api.list(&ListParams::default().labels(&selector)).await?.items)
    }

    /// Asks every member for its own view.
    pub(crate) async fn ask(&self) -> Result<Vec<Asked>> {
        let admin = RedisAdmin::new(Direct::default(), Timeouts::default());
        let mut asked = Vec::new();
        for pod in self.pods().await? {
            let address = pod
                .status
                .as_ref()
                .and_then(|status| status.pod_ip.as_deref())
                .unwrap_or_default();
            let address: IpAddr = address
                .parse()
                .with_context(|| format!("{} has no address", pod.name_any()))?;
            asked.push(Asked {
                pod: pod.name_any(),
                shard: pod.labels().get(labels::SHARD).cloned().unwrap_or_default(),
                node: pod
                    .spec
                    .as_ref()
                    .and_then(|spec| spec.node_name.clone())
                    .unwrap_or_default(),
                view: admin
                    .view(address)
                    .await
                    .with_context(|| format!("asking {}", pod.name_any()))?,
            });
        }
        Ok(asked)
    }

    /// Checks on the members themselves, not in the status, that the cluster is whole.
    pub(crate) async fn whole(&self, shards: usize, replicas: usize) -> Result<Vec<Asked>> {
        let asked = self.ask().await?;
        ensure!(
            asked.len() == shards * (1 + replicas),
            "{} members answered",
            asked.len()
        );
        let served = asked.iter().fold(SlotSet::empty(), |all, member| {
            all.union(&member.view.own_slots())
        });
        ensure!(
            served.len() == usize::from(SLOTS),
            "only slots {served} are owned"
        );
        let mut primaries: BTreeMap<&str, usize> = BTreeMap::new();
        for member in &asked {
            ensure!(
                member.view.cluster_ok,
                "{} does not call the cluster ok",
                member.pod
            );
            ensure!(
                member.view.peers.len() == asked.len(),
                "{} knows {} nodes",
                member.pod,
                member.view.peers.len()
            );
            if member.view.is_primary() {
                *primaries.entry(&member.shard).or_default() += 1;
            } else {
                ensure!(member.view.in_sync(), "{} is not in sync", member.pod);
            }
        }
        ensure!(
            primaries.len() == shards && primaries.values().all(|&count| count == 1),
            "primaries: {primaries:?}"
        );
        Ok(asked)
    }

    /// Deletes it and waits until nothing of it is left.
    pub(crate) async fn delete(&self) -> Result<()> {
        self.api().delete(&self.name, &DeleteParams::default()).await?;
        let selector = format!("{}={}", labels::CLUSTER, self.name);
        let kinds = [
            "StatefulSet.apps/v1",
            "Service./v1",
            "ConfigMap./v1",
            "PodDisruptionBudget.policy/v1",
            "Pod./v1",
            "EndpointSlice.discovery.k8s.io/v1",
        ];
        until(
            "everything of the cluster to go",
            Duration::from_mins(2),
            || async {
                let mut left = Vec::new();
                for kind in kinds {
                    left.extend(self.list(kind, &selector).await?);
                }
                Ok(Seen::when(left.is_empty(), left.join(", ")))
            },
        )
        .await
    }

    /// The names of objects of a kind, written `Kind.group/version`.
    async fn list(&self, kind: &str, selector: &str) -> Result<Vec<String>> {
        let (name, rest) = kind.split_once('.').unwrap_or((kind, "/v1"));
        let (group, version) = rest.split_once('/').unwrap_or(("", rest));
        let resource = ApiResource::from_gvk(&kube::core::GroupVersionKind::gvk(group, version, name));
        let api: Api<DynamicObject> =
            Api::namespaced_with(self.space.client.clone(), &self.space.namespace, &resource);
        let found = api.list(&ListParams::default().labels(selector)).await?;
        Ok(found
            .items
            .iter()
            .map(|object| format!("{name} {}", object.name_any()))
            .collect())
    }
}
