//! Taking everything down: exactly what the testbed made, also after a crash and when half of it is gone.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result};
use nix::mount::{MntFlags, umount2};
use nix::sys::signal::Signal;

use crate::addresses::namespace;
use crate::cgroups;
use crate::containerd::Containerd;
use crate::containers::{self, Container};
use crate::kube_binaries::PROGRAMS;
use crate::paths::Paths;
use crate::process::{self, Process};
use crate::{host, netns, wait};

const SHIM: &str = "containerd-shim-runc-v2";
const GONE_TIMEOUT: Duration = Duration::from_secs(20);

/// Whether anything of a cluster is there, alive or dead.
#[must_use]
pub fn anything_left(paths: &Paths) -> bool {
    paths.run().exists() || !netns::existing().is_empty() || !leftovers(paths).is_empty()
}

/// Removes the cluster. What is gone already is no error.
pub fn everything(paths: &Paths) -> Result<()> {
    let nodes = nodes(paths);
    // Read while the bundles are there: they are what knows the containers.
    let running: Vec<Container> = nodes
        .iter()
        .flat_map(|node| containers::on_node(paths, *node))
        .collect();
    let mut processes: Vec<Process> = process::all_recorded(paths)
        .into_iter()
        .map(|(_, process)| process)
        .collect();
    processes.extend(leftovers(paths));
    // The data goes too, so nobody has to be asked to end in order. Those who restart others come first.
    kill_all(&processes)?;
    // Killed kubelets and containerds start no more shims; these are the last.
    kill_all(&leftovers(paths))?;
    kill_containers(&running)?;

    let sockets: Vec<PathBuf> = nodes.iter().flat_map(|node| shim_sockets(paths, *node)).collect();
    unmount_below(&paths.run())?;
    for socket in sockets {
        let _ = fs::remove_file(socket);
    }
    for node in nodes {
        cgroups::remove(&cgroups::root(node));
        netns::delete(&namespace(node))?;
    }
    host::restore(paths);
    remove(&paths.run())
}

/// Kills the containers, shims, kubelet, kube-proxy and containerd of one node, and leaves its disk as it is.
pub fn node_processes(paths: &Paths, number: u8) -> Result<()> {
    let running = containers::on_node(paths, number);
    // The kubelet first, else it would begin to restart what is killed next.
    for name in [
        crate::node::kubelet(number),
        Containerd::of(paths, number).name(),
        crate::node::proxy(number),
    ] {
        process::stop(paths, &name, Signal::SIGKILL)?;
    }
    let folder = format!("{}/", paths.node(number).display());
    let shims: Vec<Process> = leftovers(paths)
        .into_iter()
        .filter(|process| {
            fs::read(format!("/proc/{}/cmdline", process.pid))
                .is_ok_and(|line| String::from_utf8_lossy(&line).contains(&folder))
        })
        .collect();
    kill_all(&shims)?;
    kill_containers(&running)
}

/// What a reboot of a node's machine would wipe: mounts, pods' network namespaces, and what runs where.
pub fn node_state(paths: &Paths, number: u8) -> Result<()> {
    let containerd = Containerd::of(paths, number);
    let sockets = shim_sockets(paths, number);
    for folder in [containerd.state(), containerd.runc()] {
        unmount_below(&folder)?;
        remove(&folder)?;
    }
    unmount_below(&paths.node(number).join("kubelet"))?;
    for socket in sockets {
        let _ = fs::remove_file(socket);
    }
    cgroups::remove(&cgroups::root(number));
    Ok(())
}

fn nodes(paths: &Paths) -> Vec<u8> {
    let mut nodes = netns::existing();
    for entry in fs::read_dir(paths.run()).into_iter().flatten().flatten() {
        let number: Option<u8> = entry
            .file_name()
            .to_str()
            .and_then(|name| name.strip_prefix("node")?.parse().ok());
        nodes.extend(number);
    }
    nodes.sort_unstable();
    nodes.dedup();
    nodes
}

/// Components and shims of this testbed that run, recorded or not. Clients such as kubectl are not ours to end.
fn leftovers(paths: &Paths) -> Vec<Process> {
    let programs: Vec<&str> = PROGRAMS
        .iter()
        .copied()
        .filter(|name| !matches!(*name, "kubectl" | "helm"))
        .chain(["containerd", SHIM])
        .collect();
    process::by_arguments(paths, &programs)
}

fn kill_all(processes: &[Process]) -> Result<()> {
    for process in processes {
        process.signal(Signal::SIGKILL);
    }
    for process in processes {
        wait::until(&format!("process {} to end", process.pid), GONE_TIMEOUT, || {
            Ok((!process.alive()).then_some(()))
        })?;
    }
    Ok(())
}

fn kill_containers(containers: &[Container]) -> Result<()> {
    for container in containers {
        wait::until(
            &format!("the processes of container {} to end", container.id),
            GONE_TIMEOUT,
            || {
                let processes = container.processes();
                for process in processes.iter().chain(&container.main) {
                    process.signal(Signal::SIGKILL);
                }
                Ok(processes.is_empty().then_some(()))
            },
        )?;
    }
    Ok(())
}

/// The sockets of shims lie in a folder of the host; each bundle names its own.
fn shim_sockets(paths: &Paths, number: u8) -> Vec<PathBuf> {
    fs::read_dir(Containerd::of(paths, number).bundles())
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| fs::read_to_string(entry.path().join("address")).ok())
        .filter_map(|address| address.trim().strip_prefix("unix://").map(PathBuf::from))
        .collect()
}

/// Unmounts everything mounted below a folder.
pub fn unmount_below(folder: &Path) -> Result<()> {
    // A mount may hide another in the same place, so look again until nothing is left.
    wait::until(
        &format!("everything below {} to be unmounted", folder.display()),
        GONE_TIMEOUT,
        || {
            let table = fs::read_to_string("/proc/self/mountinfo").context("read the mounts")?;
            let mounts = mounts_below(&table, folder);
            for mount in &mounts {
                umount2(mount, MntFlags::MNT_DETACH | MntFlags::UMOUNT_NOFOLLOW)
                    .with_context(|| format!("unmount {}", mount.display()))?;
            }
            Ok(mounts.is_empty().then_some(()))
        },
    )
}

/// The mount points below a folder, innermost first.
fn mounts_below(table: &str, folder: &Path) -> Vec<PathBuf> {
    let mut mounts: Vec<PathBuf> = table
        .lines()
        .filter_map(|line| line.split(' ').nth(4))
        .map(|point| PathBuf::from(unescape(point)))
        .filter(|point| point.starts_with(folder))
        .collect();
    mounts.reverse();
    mounts
}

/// The kernel writes spaces and the like in mount points as octal numbers.
fn unescape(text: &str) -> String {
    [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")]
        .iter()
        .fold(text.to_owned(), |text, (code, letter)| text.replace(code, letter))
}

fn remove(folder: &Path) -> Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("remove {}", folder.display()))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounts_are_found_innermost_first_and_only_below_the_folder() {
        let table = "1 0 0:1 / / rw - ext4 /dev/a rw\n\
                     2 1 0:2 / /w/run/a rw - tmpfs tmpfs rw\n\
                     3 2 0:3 / /w/run/a/with\\040space rw - tmpfs tmpfs rw\n\
                     4 1 0:4 / /w/running rw - tmpfs tmpfs rw\n";
        assert_eq!(
            mounts_below(table, Path::new("/w/run")),
            [PathBuf::from("/w/run/a/with space"), PathBuf::from("/w/run/a")]
        );
    }
}
