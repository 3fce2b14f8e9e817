//! Control groups: one root per node, under which its kubelet keeps those of the pods.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

const TOP: &str = "/sys/fs/cgroup";

/// The root of a node's groups.
#[must_use]
pub fn root(node: u8) -> String {
    format!("/foreshard-testbed/node-{node}")
}

/// Makes a group in every hierarchy. The kubelet does not start without its root.
pub fn make(group: &str) -> Result<()> {
    for folder in places(group) {
        fs::create_dir_all(&folder)
            .with_context(|| format!("make the control group {}", folder.display()))?;
    }
    Ok(())
}

/// The folders of a group that are there: one per hierarchy with cgroup v1, one in all with v2.
#[must_use]
pub fn folders(group: &str) -> Vec<PathBuf> {
    places(group)
        .into_iter()
        .filter(|folder| folder.join("cgroup.procs").is_file())
        .collect()
}

/// Removes a group with all groups in it, and the one around it when it was the last.
pub fn remove(group: &str) {
    for folder in folders(group) {
        remove_folder(&folder);
        if let Some(around) = folder.parent() {
            // The kernel keeps it while others are in it.
            let _ = fs::remove_dir(around);
        }
    }
}

/// Groups are removed from the innermost out, one by one; the files in them are not files.
fn remove_folder(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            remove_folder(&entry.path());
        }
    }
    let _ = fs::remove_dir(folder);
}

/// Where a group's folders are, or would be.
fn places(group: &str) -> Vec<PathBuf> {
    let top = Path::new(TOP);
    let below = group.trim_start_matches('/');
    if below.is_empty() || below.contains("..") {
        return Vec::new();
    }
    if top.join("cgroup.controllers").exists() {
        return vec![top.join(below)];
    }
    let hierarchies = fs::read_dir(top).into_iter().flatten().flatten();
    hierarchies
        .map(|entry| entry.path())
        // Links such as cpu -> cpu,cpuacct name the same hierarchy twice.
        .filter(|path| !path.is_symlink() && path.join("cgroup.procs").exists())
        .map(|path| path.join(below))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_outside_of_the_hierarchies_is_nowhere() {
        assert!(places("/").is_empty());
        assert!(places("/../etc").is_empty());
    }
}
