//! The containers that run now, read from containerd's bundles.
//!
//! From files and not from containerd, because faults and cleaning up must work when containerd is dead.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::cgroups;
use crate::containerd::Containerd;
use crate::paths::Paths;
use crate::process::Process;

/// A running container or sandbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Container {
    /// The number of its node.
    pub node: u8,
    /// containerd's name for it.
    pub id: String,
    /// The namespace of its pod.
    pub namespace: String,
    /// The name of its pod.
    pub pod: String,
    /// Its name within the pod; nothing for the sandbox.
    pub name: Option<String>,
    /// Its main process, if it still runs.
    pub main: Option<Process>,
    /// Its control group, as its own specification names it.
    pub cgroup: String,
}

impl Container {
    /// Every process in it, the main one included.
    #[must_use]
    pub fn processes(&self) -> Vec<Process> {
        cgroups::folders(&self.cgroup)
            .iter()
            .find_map(|folder| fs::read_to_string(folder.join("cgroup.procs")).ok())
            .unwrap_or_default()
            .lines()
            .filter_map(|pid| Process::now(pid.parse().ok()?))
            .collect()
    }
}

/// All containers and sandboxes of a node.
#[must_use]
pub fn on_node(paths: &Paths, number: u8) -> Vec<Container> {
    fs::read_dir(Containerd::of(paths, number).bundles())
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| read_bundle(number, &entry.path()))
        .collect()
}

fn read_bundle(node: u8, bundle: &Path) -> Option<Container> {
    let specification = fs::read_to_string(bundle.join("config.json")).ok()?;
    let specification: Value = serde_json::from_str(&specification).ok()?;
    let main = fs::read_to_string(bundle.join("init.pid"))
        .ok()
        .and_then(|pid| Process::now(pid.trim().parse().ok()?));
    let id = bundle.file_name()?.to_str()?.to_owned();
    describe(node, id, &specification, main)
}

fn describe(node: u8, id: String, specification: &Value, main: Option<Process>) -> Option<Container> {
    let annotation = |name: &str| {
        let annotations = specification.get("annotations")?;
        annotations
            .get(format!("io.kubernetes.cri.{name}"))?
            .as_str()
            .map(str::to_owned)
    };
    Some(Container {
        node,
        id,
        namespace: annotation("sandbox-namespace")?,
        pod: annotation("sandbox-name")?,
        name: annotation("container-name"),
        main,
        cgroup: specification.pointer("/linux/cgroupsPath")?.as_str()?.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_container_is_known_by_its_annotations() {
        let specification = json!({
            "annotations": {
                "io.kubernetes.cri.container-name": "valkey",
                "io.kubernetes.cri.sandbox-name": "cache-0",
                "io.kubernetes.cri.sandbox-namespace": "shop",
            },
            "linux": {"cgroupsPath": "/k8s.io/abc"},
        });
        let container = describe(2, "abc".into(), &specification, None).unwrap();
        assert_eq!(container.pod, "cache-0");
        assert_eq!(container.name.as_deref(), Some("valkey"));
        assert_eq!(container.cgroup, "/k8s.io/abc");
        assert!(describe(2, "abc".into(), &json!({}), None).is_none());
    }

    #[test]
    fn no_control_group_means_no_folder() {}
}
