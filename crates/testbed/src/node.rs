//! A node: its network, containerd, kubelet and kube-proxy.

use std::fs;
use std::time::Duration;

use anyhow::{Context as _, Result};
use serde_json::json;

use crate::addresses::{DNS_SERVICE, namespace, node_address, node_name};
use crate::api::Api;
use crate::cgroups;
use crate::containerd::Containerd;
use crate::paths::Paths;
use crate::pki::Pki;
use crate::process::{self, Component};
use crate::{control_plane, kubeconfig, wait};

/// A node with all images is Ready a few seconds after its kubelet started, later when builds take both cores.
const READY_TIMEOUT: Duration = Duration::from_mins(2);

/// A kubelet's name in logs and records.
#[must_use]
pub fn kubelet(number: u8) -> String {
    format!("kubelet-{number}")
}

/// A kube-proxy's name in logs and records.
#[must_use]
pub fn proxy(number: u8) -> String {
    format!("kube-proxy-{number}")
}

/// Every component of a node.
#[must_use]
pub fn components(number: u8) -> [String; 3] {
    [format!("containerd-{number}"), kubelet(number), proxy(number)]
}

/// Starts a node's kubelet and kube-proxy. Its containerd must answer already.
pub fn start(paths: &Paths, number: u8) -> Result<()> {
    let pki = Pki::of(paths);
    let folder = paths.node(number);
    let kubelet_config = folder.join("kubelet.kubeconfig");
    kubeconfig::write(&kubelet_config, &pki, &pki.kubelet(number))?;
    let settings = folder.join("kubelet.json");
    fs::write(&settings, kubelet_settings(paths, number)).context("write the kubelet's settings")?;
    cgroups::make(&cgroups::root(number))?;
    process::start(
        paths,
        &Component {
            name: kubelet(number),
            namespace: namespace(number),
            program: paths.program("kubelet"),
            arguments: vec![
                format!("--kubeconfig={}", kubelet_config.display()),
                format!("--config={}", settings.display()),
                format!("--root-dir={}", folder.join("kubelet").display()),
                format!("--cert-dir={}", folder.join("kubelet-certificates").display()),
                format!("--hostname-override={}", node_name(number)),
                format!("--node-ip={}", node_address(number)),
                format!(
                    "--node-labels=topology.kubernetes.io/zone=zone-{number},topology.kubernetes.io/region=testbed"
                ),
            ],
        },
    )?;
    let proxy_config = control_plane::config(paths, "proxy");
    kubeconfig::write(&proxy_config, &pki, &pki.files("proxy"))?;
    process::start(
        paths,
        &Component {
            name: proxy(number),
            namespace: namespace(number),
            program: paths.program("kube-proxy"),
            arguments: vec![
                format!("--kubeconfig={}", proxy_config.display()),
                "--proxy-mode=iptables".into(),
                // The limits are the whole machine's and not the testbed's to change.
                "--conntrack-max-per-core=0".into(),
                "--conntrack-min=0".into(),
                format!("--hostname-override={}", node_name(number)),
            ],
        },
    )
    .map(drop)
}

/// Waits until Kubernetes calls a node Ready.
pub fn wait_ready(paths: &Paths, api: &Api, number: u8) -> Result<()> {
    let what = format!("node {number} to be Ready");
    wait::for_component(paths, &kubelet(number), &what, READY_TIMEOUT, || {
        Ok(is_ready(api, number)?.then_some(()))
    })
}

/// When a node's kubelet last said that it lives, in Kubernetes' own words; nothing for a node that never did.
#[must_use]
pub fn last_sign_of_life(api: &Api, number: u8) -> Option<String> {
    let name = node_name(number);
    let lease = api
        .get(&format!(
            "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/{name}"
        ))
        .ok()?;
    Some(lease.pointer("/spec/renewTime")?.as_str()?.to_owned())
}

/// Waits until a node that was started again is Ready, not taking what was written about it before for the truth.
pub fn wait_ready_again(paths: &Paths, api: &Api, number: u8, before: Option<&str>) -> Result<()> {
    let what = format!("node {number} to be Ready again");
    wait::for_component(paths, &kubelet(number), &what, READY_TIMEOUT, || {
        let lives = last_sign_of_life(api, number).as_deref() != before;
        Ok((lives && is_ready(api, number)?).then_some(()))
    })
}

/// Whether Kubernetes calls a node Ready.
pub fn is_ready(api: &Api, number: u8) -> Result<bool> {
    let node = api.get(&format!("/api/v1/nodes/{}", node_name(number)))?;
    Ok(ready_condition(&node))
}

/// Whether a node object has the condition Ready.
#[must_use]
pub fn ready_condition(node: &serde_json::Value) -> bool {
    node.pointer("/status/conditions")
        .and_then(serde_json::Value::as_array)
        .into_iter()
        .flatten()
        .any(|condition| {
            condition.get("type").is_some_and(|kind| kind == "Ready")
                && condition.get("status").is_some_and(|status| status == "True")
        })
}

fn kubelet_settings(paths: &Paths, number: u8) -> String {
    let pki = Pki::of(paths);
    let server = pki.kubelet_server(number);
    let folder = paths.node(number);
    let settings = json!({
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": node_address(number),
        "authentication": {
            "anonymous": {"enabled": false},
            "webhook": {"enabled": true},
            "x509": {"clientCAFile": pki.authority().certificate},
        },
        "authorization": {"mode": "Webhook"},
        "tlsCertFile": server.certificate,
        "tlsPrivateKeyFile": server.key,
        "clusterDNS": [DNS_SERVICE],
        "clusterDomain": "cluster.local",
        "containerRuntimeEndpoint": format!("unix://{}", Containerd::of(paths, number).socket().display()),
        "podLogsDir": folder.join("pod-logs"),
        // The host's resolvers cannot be reached from here; pods ask the cluster's DNS only.
        "resolvConf": "/dev/null",
        "failCgroupV1": false,
        "cgroupDriver": "cgroupfs",
        // Without control groups per pod, kubelet 1.36 crashes when a container cannot be started at the first try
        // (it wants to resize the pod's group, which is not there). The nodes share the host's, so each has a root.
        "cgroupsPerQOS": true,
        "cgroupRoot": cgroups::root(number),
        "enforceNodeAllocatable": [],
        "failSwapOn": false,
        "maxPods": 250,
        "oomScoreAdj": 0,
        "evictionHard": {"memory.available": "100Mi"},
        // There is nowhere to fetch an image from again.
        "imageGCHighThresholdPercent": 100,
        "imageGCLowThresholdPercent": 99,
        "nodeStatusUpdateFrequency": "5s",
        // Renewed every quarter of it; see --node-monitor-grace-period.
        "nodeLeaseDurationSeconds": 20,
        "shutdownGracePeriod": "0s",
        // Tests kill the same container again and again; the default grows to five minutes of waiting.
        "crashLoopBackOff": {"maxContainerRestartPeriod": "10s"},
    });
    format!("{settings:#}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ready_is_read_from_the_conditions() {
        let node = |status: &str| {
            json!({"status": {"conditions": [
                {"type": "MemoryPressure", "status": "True"},
                {"type": "Ready", "status": status},
            ]}})
        };
        assert!(ready_condition(&node("True")));
        assert!(!ready_condition(&node("Unknown")));
        assert!(!ready_condition(&json!({})));
    }
}
