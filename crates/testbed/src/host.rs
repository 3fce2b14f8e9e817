//! The few things on the host that Kubernetes touches whatever it is told: remembered before, put back after.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use nix::mount::{MntFlags, umount2};
use serde::{Deserialize, Serialize};

use crate::containerd::CNI_NETWORK_PREFIX;
use crate::paths::Paths;

/// Kernel parameters a kubelet sets at its start.
const PARAMETERS: &[&str] = &[
    "vm/overcommit_memory",
    "vm/panic_on_oom",
    "kernel/panic",
    "kernel/panic_on_oops",
    "kernel/keys/root_maxkeys",
    "kernel/keys/root_maxbytes",
];

/// Folders with fixed names that a kubelet, containerd or CNI makes.
const FOLDERS: &[&str] = &[
    "/var/lib/kubelet",
    "/var/lib/cni",
    "/var/log/containers",
    "/run/containerd",
    "/etc/cni/net.d",
];

/// Where CNI remembers.
const CNI_RESULTS: &str = "/var/lib/cni/results";

/// The host as it was before the cluster.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Before {
    parameters: BTreeMap<String, String>,
    missing_folders: Vec<PathBuf>,
}

/// Remembers the host's state. Called once, before anything is started.
pub fn remember(paths: &Paths) -> Result<()> {
    let mut before = Before::default();
    for name in PARAMETERS {
        if let Ok(value) = fs::read_to_string(Path::new("/proc/sys").join(name)) {
            before
                .parameters
                .insert((*name).to_owned(), value.trim().to_owned());
        }
    }
    before.missing_folders = FOLDERS
        .iter()
        .map(PathBuf::from)
        .filter(|folder| !folder.exists())
        .collect();
    let text = serde_json::to_string_pretty(&before).context("write down the host's state")?;
    fs::write(record(paths), text).context("write down the host's state")
}

/// Puts the host back to what was remembered. Nothing remembered, nothing done.
pub fn restore(paths: &Paths) {
    remove_links(&paths.run());
    remove_cni_results();
    remove_namespace_folder();
    let Some(before) = fs::read_to_string(record(paths))
        .ok()
        .and_then(|text| serde_json::from_str::<Before>(&text).ok())
    else {
        return;
    };
    for (name, value) in before.parameters {
        let file = Path::new("/proc/sys").join(&name);
        if fs::read_to_string(&file).is_ok_and(|now| now.trim() != value)
            && let Err(error) = fs::write(&file, &value)
        {
            eprintln!("could not set {} back to {value}: {error}", file.display());
        }
    }
    for folder in before.missing_folders {
        // Made by us, but somebody else may have put something there since.
        remove_empty(&folder);
    }
}

/// A kubelet links every container's log from a folder of the host.
fn remove_links(run: &Path) {
    for entry in fs::read_dir("/var/log/containers")
        .into_iter()
        .flatten()
        .flatten()
    {
        if fs::read_link(entry.path()).is_ok_and(|target| target.starts_with(run)) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// CNI remembers what it gave each pod in a folder of the host, under the network's name.
fn remove_cni_results() {
    let names: Vec<String> = fs::read_dir(CNI_RESULTS)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect();
    for name in cni_results_of_ours(&names) {
        let _ = fs::remove_file(Path::new(CNI_RESULTS).join(name));
    }
}

/// A pod's loopback device has a record too, under a name that only the pod's number makes ours.
fn cni_results_of_ours(names: &[String]) -> Vec<&String> {
    let pods: Vec<&str> = names
        .iter()
        .filter(|name| name.starts_with(CNI_NETWORK_PREFIX))
        .filter_map(|name| name.rsplit('-').nth(1))
        .collect();
    names
        .iter()
        .filter(|name| pods.iter().any(|pod| name.contains(pod)))
        .collect()
}

/// `ip` mounts its folder of network namespaces onto itself and never takes it away; it makes a new one when needed.
fn remove_namespace_folder() {
    let folder = Path::new("/run/netns");
    let empty = fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_none());
    if empty {
        let _ = umount2(folder, MntFlags::empty());
        let _ = fs::remove_dir(folder);
    }
}

/// Removes a folder and the empty folders in it, and leaves everything else.
fn remove_empty(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let kind = entry.file_type();
        if kind.as_ref().is_ok_and(fs::FileType::is_dir) {
            remove_empty(&entry.path());
        } else if kind.is_ok_and(|kind| {
            use std::os::unix::fs::FileTypeExt as _;
            kind.is_socket()
        }) {
            let _ = fs::remove_file(entry.path());
        }
    }
    let _ = fs::remove_dir(folder);
}

fn record(paths: &Paths) -> PathBuf {
    paths.run().join("host.json")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pods_loopback_record_goes_with_its_own_and_others_stay() {
        let names = [
            "cni-loopback-4c31-lo".to_owned(),
            "cni-loopback-77a7-lo".to_owned(),
            "foreshard-testbed-1-4c31-eth0".to_owned(),
            "other-99ff-eth0".to_owned(),
        ];
        assert_eq!(cni_results_of_ours(&names), [&names[0], &names[2]]);
    }
}
