//! The cluster as a whole: up, down, and how it is.

use std::fs::{self, File};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail};
use serde::{Deserialize, Serialize};

use crate::addresses::{check_node, namespace, node_name};
use crate::api::Api;
use crate::containerd::Containerd;
use crate::control_plane::{self, API_SERVER, CONTROLLER_MANAGER, ETCD, SCHEDULER};
use crate::engine::Engine;
use crate::images::{self, Archive};
use crate::paths::Paths;
use crate::pki::Pki;
use crate::progress::Steps;
use crate::{addons, cleanup, host, kube_binaries, netns, node, process, wait};

/// A node that was cut off or starved says that it is Ready within one lease after that ends.
const RECOVERY_TIMEOUT: Duration = Duration::from_secs(30);

/// What is written down about the live cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cluster {
    /// How many nodes it has.
    pub nodes: u8,
}

impl Cluster {
    /// The live cluster, if one was started.
    #[must_use]
    pub fn live(paths: &Paths) -> Option<Self> {
        let text = fs::read_to_string(paths.run().join("cluster.json")).ok()?;
        serde_json::from_str(&text).ok()
    }

    /// The live cluster, or an error that says what to do.
    pub fn required(paths: &Paths) -> Result<Self> {
        Self::live(paths).context("the testbed is not up; run `testbed up`")
    }

    /// The numbers of its nodes.
    pub fn numbers(self) -> impl Iterator<Item = u8> {
        1..=self.nodes
    }

    fn write(self, paths: &Paths) -> Result<()> {
        let text = serde_json::to_string(&self).context("write down the cluster")?;
        fs::write(paths.run().join("cluster.json"), text).context("write down the cluster")
    }
}

/// Brings up a cluster of this many nodes. A healthy one is left as it is; a broken one is replaced.
pub fn up(paths: &Paths, nodes: u8) -> Result<()> {
    check_node(nodes)?;
    if !nix::unistd::geteuid().is_root() {
        bail!("the testbed makes network namespaces and mounts, which only root may: run it as root");
    }
    let _lock = lock(paths)?;
    let steps = Steps::start();
    if let Some(cluster) = Cluster::live(paths)
        && recovers(paths, cluster)?
    {
        return grow(paths, cluster, nodes, steps);
    }
    kube_binaries::ensure(paths)?;
    images::ensure_pause(paths)?;
    images::ensure_stores(paths, Engine::all())?;
    if cleanup::anything_left(paths) {
        steps.say("Removing what is left of an earlier cluster");
        cleanup::everything(paths)?;
    }
    start(paths, nodes, steps)
}

fn start(paths: &Paths, nodes: u8, steps: Steps) -> Result<()> {
    for folder in [paths.logs(), paths.run().join("pids")] {
        fs::create_dir_all(&folder).with_context(|| format!("make {}", folder.display()))?;
    }
    host::remember(paths)?;
    let pki = Pki::of(paths);
    pki.create()?;
    control_plane::write_admin_config(paths)?;
    for number in 1..=nodes {
        prepare_node(paths, number)?;
    }
    let cluster = Cluster { nodes };
    let archives = images::all(paths)?;
    control_plane::start_store_and_api(paths)?;
    steps.say("Started etcd and the API server");

    thread::scope(|scope| {
        // Loading images is work for the disk, starting the API server for the processors.
        let loaders: Vec<_> = cluster
            .numbers()
            .map(|number| {
                let archives = &archives;
                scope.spawn(move || start_containerd(paths, number, archives))
            })
            .collect();
        let api = Api::connect(paths)?;
        control_plane::wait_for_api_server(paths, &api)?;
        steps.say("The API server is ready");
        control_plane::start_controllers(paths)?;
        addons::start(paths, &api)?;
        for loader in loaders {
            loader
                .join()
                .map_err(|_| anyhow!("starting containerd ended by accident"))??;
        }
        steps.say(&format!("Loaded {} images into each node", archives.len()));
        for number in cluster.numbers() {
            node::start(paths, number)?;
        }
        for number in cluster.numbers() {
            node::wait_ready(paths, &api, number)?;
        }
        steps.say(&format!("{nodes} nodes are Ready"));
        addons::wait_ready(paths, &api)?;
        steps.say("CoreDNS and metrics-server answer");
        Ok::<(), anyhow::Error>(())
    })?;
    // Written last: a cluster that is written down once came up whole.
    cluster.write(paths)?;
    steps.say("The testbed is up; try ./bin/kubectl get nodes");
    Ok(())
}

fn prepare_node(paths: &Paths, number: u8) -> Result<()> {
    fs::create_dir_all(paths.node(number)).with_context(|| format!("make the folder of node {number}"))?;
    Pki::of(paths).create_node(number)?;
    netns::create(number)
}

fn start_containerd(paths: &Paths, number: u8, archives: &[Archive]) -> Result<()> {
    let containerd = Containerd::of(paths, number);
    containerd.start()?;
    containerd.import(archives).map(drop)
}

/// Whether a cluster is healthy, or will be soon: a busy machine and a cut cable are no reason to throw one away.
fn recovers(paths: &Paths, cluster: Cluster) -> Result<bool> {
    if !dead(paths, cluster).is_empty() {
        return Ok(false);
    }
    for number in cluster.numbers().filter(|number| netns::is_cut(*number)) {
        netns::restore(number)?;
        println!("The network of node {number} was cut and is restored");
    }
    let healthy = wait::until("the running cluster to be healthy", RECOVERY_TIMEOUT, || {
        Ok(unhealthy(paths, cluster).is_empty().then_some(()))
    });
    Ok(healthy.is_ok())
}

/// Adds the nodes a healthy cluster lacks. It never takes nodes away: somebody's pods may be on them.
fn grow(paths: &Paths, cluster: Cluster, nodes: u8, steps: Steps) -> Result<()> {
    if nodes <= cluster.nodes {
        println!("The testbed is up and healthy with {} nodes", cluster.nodes);
        return Ok(());
    }
    let archives = images::all(paths)?;
    let api = Api::connect(paths)?;
    for number in cluster.nodes + 1..=nodes {
        prepare_node(paths, number)?;
        start_containerd(paths, number, &archives)?;
        node::start(paths, number)?;
        Cluster { nodes: number }.write(paths)?;
        node::wait_ready(paths, &api, number)?;
        steps.say(&format!("Node {number} has joined and is Ready"));
    }
    Ok(())
}

/// Takes the cluster down and leaves nothing but the caches.
pub fn down(paths: &Paths) -> Result<()> {
    let _lock = lock(paths)?;
    if !cleanup::anything_left(paths) {
        println!("The testbed is not up");
        return Ok(());
    }
    let steps = Steps::start();
    cleanup::everything(paths)?;
    steps.say("The testbed is down");
    Ok(())
}

/// Loads every image that has been made into every node that runs.
pub fn load_images(paths: &Paths) -> Result<()> {
    let cluster = Cluster::required(paths)?;
    let archives = images::all(paths)?;
    for number in cluster.numbers() {
        let containerd = Containerd::of(paths, number);
        if !process::running(paths, &containerd.name()) {
            println!("node {number}: stopped, nothing loaded");
            continue;
        }
        let loaded = containerd.import(&archives)?;
        println!(
            "node {number}: loaded {loaded} of {} images, the rest was there",
            archives.len()
        );
    }
    Ok(())
}

/// Everything that should run in this cluster.
fn components(cluster: Cluster) -> Vec<String> {
    [
        ETCD,
        API_SERVER,
        CONTROLLER_MANAGER,
        SCHEDULER,
        addons::COREDNS,
        addons::METRICS_SERVER,
        addons::STORAGE,
    ]
    .into_iter()
    .map(str::to_owned)
    .chain(cluster.numbers().flat_map(node::components))
    .collect()
}

/// What has ended that should run, in words.
fn dead(paths: &Paths, cluster: Cluster) -> Vec<String> {
    let mut reasons: Vec<String> = components(cluster)
        .into_iter()
        .filter(|name| !process::running(paths, name))
        .map(|name| format!("{name} does not run"))
        .collect();
    reasons.extend(
        cluster
            .numbers()
            .map(namespace)
            .filter(|name| !netns::exists(name))
            .map(|name| format!("the network namespace {name} is gone")),
    );
    reasons
}

/// What is wrong with the cluster, in words; nothing when it is healthy.
fn unhealthy(paths: &Paths, cluster: Cluster) -> Vec<String> {
    let mut reasons = dead(paths, cluster);
    if reasons.is_empty() {
        match Api::connect(paths).and_then(|api| not_ready(&api, cluster)) {
            Ok(nodes) => reasons.extend(nodes),
            Err(error) => reasons.push(format!("the API server does not answer: {error:#}")),
        }
    }
    reasons
}

fn not_ready(api: &Api, cluster: Cluster) -> Result<Vec<String>> {
    let mut reasons = Vec::new();
    for number in cluster.numbers() {
        if !node::is_ready(api, number)? {
            reasons.push(format!("{} is not Ready", node_name(number)));
        }
    }
    Ok(reasons)
}

/// Prints how the cluster is. Gives whether it is up and healthy.
pub fn status(paths: &Paths) -> Result<bool> {
    let Some(cluster) = Cluster::live(paths) else {
        println!("The testbed is not up");
        return Ok(false);
    };
    println!("{:<26} {:>8}  STATE", "COMPONENT", "PID");
    for name in components(cluster) {
        let recorded = process::recorded(paths, &name);
        let pid = recorded.map_or_else(|| "-".to_owned(), |process| process.pid.to_string());
        let state = if recorded.is_some_and(|process| process.alive()) {
            "running"
        } else {
            "dead"
        };
        println!("{name:<26} {pid:>8}  {state}");
    }
    for number in cluster.numbers().filter(|number| netns::is_cut(*number)) {
        println!("The network of node {number} is cut");
    }
    let reasons = unhealthy(paths, cluster);
    for reason in &reasons {
        println!("Not healthy: {reason}");
    }
    if reasons.is_empty() {
        println!("Healthy, {} nodes Ready", cluster.nodes);
    }
    Ok(reasons.is_empty())
}

/// One at a time: two starts at once would each take the other's half for a crash.
pub(crate) fn lock(paths: &Paths) -> Result<File> {
    fs::create_dir_all(paths.work()).with_context(|| format!("make {}", paths.work().display()))?;
    let file = File::create(paths.work().join("lock")).context("make the testbed's lock")?;
    if file.try_lock().is_err() {
        println!("Waiting for another testbed command to end");
        file.lock().context("wait for the testbed's lock")?;
    }
    Ok(file)
}
