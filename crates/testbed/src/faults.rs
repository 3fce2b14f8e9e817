//! Breaking things on purpose, as machines, networks and processes break by themselves.
//!
//! Every function acts on the live cluster of this repository and returns when the fault is in effect.

use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use nix::sys::signal::Signal;

use crate::api::Api;
use crate::cluster::{self, Cluster};
use crate::containerd::Containerd;
use crate::containers::{self, Container};
use crate::control_plane::{self, API_SERVER};
use crate::paths::Paths;
use crate::{cleanup, images, netns, node, process, wait};

pub use nix::sys::signal::Signal as FaultSignal;

/// Processes that were just forked are missed by one look; as many looks as this see them all.
const FREEZE_LOOKS: usize = 50;
const GONE_TIMEOUT: Duration = Duration::from_secs(20);

/// Sends a signal to the main process of a pod's container and, if it is a deadly one, waits until it is gone.
///
/// Without a container's name the pod must have just one.
pub fn kill_process(namespace: &str, pod: &str, container: Option<&str>, signal: Signal) -> Result<()> {
    let paths = Paths::find()?;
    let container = one_container(&paths, namespace, pod, container)?;
    let Some(main) = container.main else {
        bail!("the container of {namespace}/{pod} does not run");
    };
    main.signal(signal);
    if signal == Signal::SIGKILL {
        wait::until(
            &format!("the main process of {namespace}/{pod} to end"),
            GONE_TIMEOUT,
            || Ok((!main.alive()).then_some(())),
        )?;
    }
    Ok(())
}

/// Stops every process of a pod's containers where it is: it answers nothing, and its connections stay open.
pub fn freeze(namespace: &str, pod: &str) -> Result<()> {
    let containers = containers_of(&Paths::find()?, namespace, pod)?;
    for container in &containers {
        let mut seen = Vec::new();
        for _ in 0..FREEZE_LOOKS {
            let processes = container.processes();
            let fresh: Vec<_> = processes
                .into_iter()
                .filter(|process| !seen.contains(process))
                .collect();
            if fresh.is_empty() {
                break;
            }
            for process in fresh {
                process.signal(Signal::SIGSTOP);
                seen.push(process);
            }
        }
    }
    Ok(())
}

/// Lets a frozen pod go on.
pub fn thaw(namespace: &str, pod: &str) -> Result<()> {
    for container in containers_of(&Paths::find()?, namespace, pod)? {
        for process in container.processes() {
            process.signal(Signal::SIGCONT);
        }
    }
    Ok(())
}

/// Takes a node's power away: its packets vanish, then its containers, kubelet and containerd die at once.
///
/// Node 1 carries the control plane, which stays; its network stays too, so peers see its connections closed.
pub fn stop_node(number: u8) -> Result<()> {
    let paths = Paths::find()?;
    check(&paths, number)?;
    if number != 1 {
        // First, so that nobody is told: a dying process closes its connections, a machine without power does not.
        netns::cut(number)?;
    }
    cleanup::node_processes(&paths, number)
}

/// Gives a node its power back and waits until Kubernetes calls it Ready.
pub fn start_node(number: u8) -> Result<()> {
    let paths = Paths::find()?;
    check(&paths, number)?;
    let _lock = cluster::lock(&paths)?;
    let api = Api::connect(&paths)?;
    let was_stopped = !process::running(&paths, &node::kubelet(number));
    let before = node::last_sign_of_life(&api, number);
    if was_stopped {
        cleanup::node_processes(&paths, number)?;
        cleanup::node_state(&paths, number)?;
        let containerd = Containerd::of(&paths, number);
        containerd.start()?;
        containerd.import(&images::all(&paths)?)?;
        node::start(&paths, number)?;
    }
    if number != 1 {
        netns::restore(number)?;
    }
    let before = before.as_deref().filter(|_| was_stopped);
    node::wait_ready_again(&paths, &api, number, before)
}

/// Pulls a node's cable: packets vanish in both directions, everything on it goes on running.
pub fn cut_network(number: u8) -> Result<()> {
    check(&Paths::find()?, number)?;
    refuse_first(number)?;
    netns::cut(number)
}

/// Puts a node's cable back.
pub fn restore_network(number: u8) -> Result<()> {
    check(&Paths::find()?, number)?;
    refuse_first(number)?;
    netns::restore(number)
}

/// Kills the API server. Everything that runs goes on running.
pub fn stop_apiserver() -> Result<()> {
    process::stop(&Paths::find()?, API_SERVER, Signal::SIGKILL)
}

/// Starts the API server again and waits until it is ready.
pub fn start_apiserver() -> Result<()> {
    let paths = Paths::find()?;
    Cluster::required(&paths)?;
    if !process::running(&paths, API_SERVER) {
        control_plane::start_api_server(&paths)?;
    }
    control_plane::wait_for_api_server(&paths, &Api::connect(&paths)?)
}

fn check(paths: &Paths, number: u8) -> Result<()> {
    let cluster = Cluster::required(paths)?;
    if !cluster.numbers().any(|known| known == number) {
        bail!(
            "there is no node {number}: the testbed has nodes 1 to {}",
            cluster.nodes
        );
    }
    Ok(())
}

fn refuse_first(number: u8) -> Result<()> {
    if number == 1 {
        bail!(
            "node 1 carries the control plane and the routes between all nodes; cut another node off instead"
        );
    }
    Ok(())
}

/// The containers of a pod that run, without its sandbox.
fn containers_of(paths: &Paths, namespace: &str, pod: &str) -> Result<Vec<Container>> {
    let found: Vec<Container> = Cluster::required(paths)?
        .numbers()
        .flat_map(|number| containers::on_node(paths, number))
        .filter(|container| {
            container.namespace == namespace
                && container.pod == pod
                && container.name.is_some()
                && container.main.is_some()
        })
        .collect();
    if found.is_empty() {
        bail!("no container of the pod {namespace}/{pod} runs on any node");
    }
    Ok(found)
}

fn one_container(paths: &Paths, namespace: &str, pod: &str, name: Option<&str>) -> Result<Container> {
    let mut found = containers_of(paths, namespace, pod)?;
    let names: Vec<String> = found
        .iter()
        .filter_map(|container| container.name.clone())
        .collect();
    let names = names.join(", ");
    match name {
        Some(name) => found.retain(|container| container.name.as_deref() == Some(name)),
        None if found.len() > 1 => {
            bail!("the pod {namespace}/{pod} has several containers, name one of: {names}")
        }
        None => {}
    }
    found
        .pop()
        .with_context(|| format!("the pod {namespace}/{pod} runs no such container, only: {names}"))
}
