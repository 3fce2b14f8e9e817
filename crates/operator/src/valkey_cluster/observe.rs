//! Looking: the pods from the watches, and every store node's own view, all at the same time.
//!
//! It never fails as a whole. A node that does not answer is something that was observed.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use foreshard_api::{ValkeyCluster, labels};
use foreshard_plan::NodeView;
use foreshard_plan::cluster::{Member, Observed};
use foreshard_store::NodeAdmin;
use futures::future::join_all;
use k8s_openapi::api::core::v1::{ContainerStatus, Pod};
use kube::ResourceExt;

use super::objects::{CONTAINER, announced_name};
use crate::context::Context;

/// Reasons of a waiting container that do not pass by themselves.
const TROUBLES: &[&str] = &[
    "CrashLoopBackOff",
    "CreateContainerConfigError",
    "CreateContainerError",
    "ErrImageNeverPull",
    "ErrImagePull",
    "ImageInspectError",
    "ImagePullBackOff",
    "InvalidImageName",
    "RunContainerError",
];

/// Looks at a cluster: at the pods of its own StatefulSets. Pods that only carry its labels, such as those of an
/// earlier cluster of the same name, are not its members.
pub(super) async fn observe<A: NodeAdmin>(
    context: &Context<A>,
    cluster: &ValkeyCluster,
    sets: &BTreeSet<String>,
    templates: &BTreeMap<u32, String>,
) -> Observed {
    let pods = context
        .cache
        .pods_of(&cluster.namespace().unwrap_or_default(), &cluster.name_any());
    let pods = pods.iter().filter(|pod| belongs(pod, sets));
    let looks = pods.map(|pod| async {
        let ip = address(pod);
        let view = match ip {
            Some(ip) => look(context, ip, &announced_name(cluster, &pod.name_any())).await,
            None => Err("it has no address yet".to_owned()),
        };
        member(pod, ip, view, templates)
    });
    let mut members: Vec<Member> = join_all(looks).await.into_iter().flatten().collect();
    members.sort_by(|a, b| (a.shard, &a.pod).cmp(&(b.shard, &b.pod)));
    Observed { members }
}

/// Asks the node at an address. One that announces another pod's name got the address after our pod had lost it, and
/// may belong to another cluster.
async fn look<A: NodeAdmin>(context: &Context<A>, ip: IpAddr, name: &str) -> Result<NodeView, String> {
    let view = context.admin.view(ip).await.map_err(|error| error.to_string())?;
    match view.own_line().and_then(|line| line.name.as_deref()) {
        Some(announced) if announced == name => Ok(view),
        Some(other) => Err(format!("{other} answers at its address")),
        None => Err("a node without a name answers at its address".to_owned()),
    }
}

/// Whether a pod was made by one of these StatefulSets and has not ended for good.
fn belongs(pod: &Pod, sets: &BTreeSet<String>) -> bool {
    let owned = pod
        .owner_references()
        .iter()
        .any(|owner| owner.controller == Some(true) && sets.contains(&owner.uid));
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    owned && !matches!(phase, Some("Failed" | "Succeeded"))
}

fn address(pod: &Pod) -> Option<IpAddr> {
    pod.status.as_ref()?.pod_ip.as_deref()?.parse().ok()
}

/// Puts a pod and its node's view together; `None` for a pod that is no member.
fn member(
    pod: &Pod,
    ip: Option<IpAddr>,
    view: Result<NodeView, String>,
    templates: &BTreeMap<u32, String>,
) -> Option<Member> {
    let shard: u32 = pod.labels().get(labels::SHARD)?.parse().ok()?;
    let store = store_status(pod);
    let wanted = templates.get(&shard);
    let runs = pod.annotations().get(labels::TEMPLATE);
    Some(Member {
        pod: pod.name_any(),
        shard,
        ip,
        node: pod
            .spec
            .as_ref()
            .and_then(|spec| spec.node_name.clone())
            .unwrap_or_default(),
        created: pod.metadata.creation_timestamp.as_ref().map(|time| time.0),
        started: view.is_ok() || store.is_some_and(has_started),
        terminating: pod.metadata.deletion_timestamp.is_some(),
        trouble: store.and_then(waiting_trouble).or_else(|| unschedulable(pod)),
        old_template: wanted.is_some() && runs != wanted,
        view,
    })
}

fn store_status(pod: &Pod) -> Option<&ContainerStatus> {
    let statuses = pod.status.as_ref()?.container_statuses.as_ref()?;
    statuses.iter().find(|status| status.name == CONTAINER)
}

/// Whether the server runs, or ran before and may run again.
fn has_started(status: &ContainerStatus) -> bool {
    let ran = |state: &Option<k8s_openapi::api::core::v1::ContainerState>| {
        state
            .as_ref()
            .is_some_and(|state| state.running.is_some() || state.terminated.is_some())
    };
    ran(&status.state) || ran(&status.last_state) || status.restart_count > 0
}

fn waiting_trouble(status: &ContainerStatus) -> Option<String> {
    let waiting = status.state.as_ref()?.waiting.as_ref()?;
    let reason = waiting
        .reason
        .as_deref()
        .filter(|reason| TROUBLES.contains(reason))?;
    let message = waiting.message.as_deref().unwrap_or_default();
    Some(
        format!("{reason} (image {}): {message}", status.image)
            .trim_end_matches([':', ' '])
            .to_owned(),
    )
}

fn unschedulable(pod: &Pod) -> Option<String> {
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    let refused = conditions.iter().find(|condition| {
        condition.type_ == "PodScheduled" && condition.reason.as_deref() == Some("Unschedulable")
    })?;
    Some(format!(
        "Unschedulable: {}",
        refused.message.as_deref().unwrap_or_default()
    ))
}
