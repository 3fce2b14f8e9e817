//! The `testbed` command.

// A command-line tool for developers: its output is what the person at the terminal reads.
#![allow(clippy::print_stdout, clippy::print_stderr)]

use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

use anyhow::{Context as _, Result, bail};
use clap::{Parser, Subcommand};
use foreshard_testbed::addresses::{check_node, namespace};
use foreshard_testbed::cluster::{self, Cluster};
use foreshard_testbed::engine::Engine;
use foreshard_testbed::faults::{self, FaultSignal};
use foreshard_testbed::paths::Paths;
use foreshard_testbed::{images, kube_binaries, netns, process};

/// A real Kubernetes of several nodes on this machine, without Docker.
#[derive(Debug, Parser)]
#[command(name = "testbed", version)]
struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Build the Kubernetes binaries
    Build,
    /// Make the images of stores and the sandbox
    Images {
        /// Which stores; all when none is named
        names: Vec<String>,
    },
    /// Make an image from one static binary
    ProgramImage {
        /// The image's full reference
        name: String,
        /// The binary
        binary: PathBuf,
        /// What the image runs; the binary itself when not given
        #[arg(long, num_args = 1..)]
        entrypoint: Vec<String>,
    },
    /// Build the operator and the load generator, make their images and load them into the running nodes
    OperatorImages,
    /// Load all images into the running nodes
    LoadImages,
    /// Bring the cluster up
    Up {
        /// How many nodes
        #[arg(long, env = "NODES", default_value_t = 2)]
        nodes: u8,
    },
    /// Take the cluster down and leave nothing behind
    Down,
    /// Say which components run and whether the nodes are Ready
    Status,
    /// Say how to reach the cluster
    Kubeconfig,
    /// Run a command in a node's network with KUBECONFIG set
    Exec {
        /// Whose network
        #[arg(long, default_value_t = 1)]
        node: u8,
        /// The command
        #[arg(last = true, required = true)]
        command: Vec<String>,
    },
    /// Break something on purpose
    Fault {
        #[command(subcommand)]
        fault: Fault,
    },
}

#[derive(Debug, Subcommand)]
enum Fault {
    /// Kill the main process of a pod's container
    KillProcess {
        /// The pod's namespace
        namespace: String,
        /// The pod
        pod: String,
        /// The container, if the pod has several
        container: Option<String>,
        /// The signal to send
        #[arg(long, default_value = "KILL")]
        signal: String,
    },
    /// Stop all processes of a pod where they are
    Freeze {
        /// The pod's namespace
        namespace: String,
        /// The pod
        pod: String,
    },
    /// Let a frozen pod go on
    Thaw {
        /// The pod's namespace
        namespace: String,
        /// The pod
        pod: String,
    },
    /// Take a node's power away
    StopNode {
        /// The node's number
        number: u8,
    },
    /// Give a node its power back
    StartNode {
        /// The node's number
        number: u8,
    },
    /// Pull a node's network cable
    CutNetwork {
        /// The node's number
        number: u8,
    },
    /// Put a node's network cable back
    RestoreNetwork {
        /// The node's number
        number: u8,
    },
    /// Kill the API server
    StopApiserver,
    /// Start the API server again
    StartApiserver,
}

fn main() -> ExitCode {
    match act(Arguments::parse().action) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("testbed: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn act(action: Action) -> Result<ExitCode> {
    let paths = Paths::find()?;
    match action {
        Action::Build => kube_binaries::ensure(&paths)?,
        Action::Images { names } => make_images(&paths, &names)?,
        Action::ProgramImage {
            name,
            binary,
            entrypoint,
        } => {
            let archive = images::make_program(&paths, &name, &binary, &entrypoint)?;
            println!("{} {}", archive.name, archive.digest);
        }
        Action::OperatorImages => {
            images::make_operator(&paths)?;
            if Cluster::live(&paths).is_some() {
                cluster::load_images(&paths)?;
            }
        }
        Action::LoadImages => cluster::load_images(&paths)?,
        Action::Up { nodes } => cluster::up(&paths, nodes)?,
        Action::Down => cluster::down(&paths)?,
        Action::Status => {
            if !cluster::status(&paths)? {
                return Ok(ExitCode::FAILURE);
            }
        }
        Action::Kubeconfig => {
            Cluster::required(&paths)?;
            println!("KUBECONFIG={}", paths.kubeconfig().display());
            println!("The API server is only reachable inside the testbed's network:");
            println!("  ./bin/kubectl get nodes");
            println!("  testbed exec -- <any command>");
        }
        Action::Exec { node, command } => execute(&paths, node, &command)?,
        Action::Fault { fault } => act_fault(fault)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn make_images(paths: &Paths, names: &[String]) -> Result<()> {
    let mut engines = Vec::new();
    for name in names {
        let Some(engine) = Engine::by_name(name) else {
            let known: Vec<&str> = Engine::all().iter().map(|engine| engine.name()).collect();
            bail!("there is no store {name}; there are: {}", known.join(", "));
        };
        engines.push(engine);
    }
    if engines.is_empty() {
        engines = Engine::all().to_vec();
    }
    images::ensure_pause(paths)?;
    images::ensure_stores(paths, &engines)?;
    for archive in images::all(paths)? {
        println!("{} {}", archive.name, archive.digest);
    }
    Ok(())
}

fn execute(paths: &Paths, node: u8, command: &[String]) -> Result<()> {
    check_node(node)?;
    Cluster::required(paths)?;
    let [program, arguments @ ..] = command else {
        bail!("no command given");
    };
    netns::enter(&namespace(node))?;
    // This program becomes the command, so signals and the exit code are the command's own.
    let mut command = Command::new(program);
    process::without_proxy(&mut command);
    let error = command
        .args(arguments)
        .env("KUBECONFIG", paths.kubeconfig())
        .exec();
    Err(error).with_context(|| format!("run {program}"))
}

fn act_fault(fault: Fault) -> Result<()> {
    match fault {
        Fault::KillProcess {
            namespace,
            pod,
            container,
            signal,
        } => {
            let signal = parse_signal(&signal)?;
            faults::kill_process(&namespace, &pod, container.as_deref(), signal)
        }
        Fault::Freeze { namespace, pod } => faults::freeze(&namespace, &pod),
        Fault::Thaw { namespace, pod } => faults::thaw(&namespace, &pod),
        Fault::StopNode { number } => faults::stop_node(number),
        Fault::StartNode { number } => faults::start_node(number),
        Fault::CutNetwork { number } => faults::cut_network(number),
        Fault::RestoreNetwork { number } => faults::restore_network(number),
        Fault::StopApiserver => faults::stop_apiserver(),
        Fault::StartApiserver => faults::start_apiserver(),
    }
}

fn parse_signal(name: &str) -> Result<FaultSignal> {
    let name = name.to_uppercase();
    let name = name.strip_prefix("SIG").unwrap_or(&name);
    format!("SIG{name}")
        .parse()
        .with_context(|| format!("there is no signal {name}"))
}
