//! Real store processes on loopback addresses, and the operator's loop around them without Kubernetes.
//!
//! Every process has an address of its own in 127.0.0.0/8 and the usual port, as a pod would.

use std::fs;
use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use foreshard_plan::check::check;
use foreshard_plan::cluster::{Member, Observed, Plan, Wish, World, plan};
use foreshard_store::dial::Direct;
use foreshard_store::{NodeAdmin, RedisAdmin, Timeouts};
use foreshard_testbed::engine::Engine;
use jiff::Timestamp;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

static NEXT: AtomicU8 = AtomicU8::new(1);

/// A set of processes that stand for the pods of one cluster.
pub struct Fleet {
    engine: Engine,
    wish: Wish,
    network: [u8; 3],
    folder: PathBuf,
    processes: Vec<Option<Child>>,
    began: Timestamp,
    /// How nodes are talked to.
    pub admin: RedisAdmin<Direct>,
}

impl Fleet {
    /// Starts all processes of a cluster.
    pub fn start(engine: Engine, wish: Wish) -> Result<Self> {
        // Two test programs never run at the same time; within one, every fleet has a network of its own.
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("foreshard-engine-{}-{number}", std::process::id()));
        fs::create_dir_all(&folder)?;
        let mut fleet = Self {
            engine,
            wish,
            network: [127, 77, number],
            folder,
            processes: Vec::new(),
            began: Timestamp::now(),
            admin: RedisAdmin::new(Direct::default(), Timeouts::default()),
        };
        for index in 0..wish.pods() {
            let process = fleet.launch(index)?;
            fleet.processes.push(Some(process));
        }
        Ok(fleet)
    }

    /// The address of a process.
    #[must_use]
    pub fn address(&self, index: u32) -> IpAddr {
        let [a, b, c] = self.network;
        IpAddr::V4(Ipv4Addr::new(a, b, c, u8::try_from(index + 1).unwrap_or(u8::MAX)))
    }

    fn launch(&self, index: u32) -> Result<Child> {
        let address = self.address(index).to_string();
        let folder = self.folder.join(index.to_string());
        if folder.exists() {
            fs::remove_dir_all(&folder)?;
        }
        fs::create_dir_all(&folder)?;
        let log = fs::File::create(self.folder.join(format!("{index}.log")))?;
        self.engine
            .server_command()
            .args([
                "--port",
                "6379",
                "--bind",
                &address,
                "--protected-mode",
                "no",
                "--save",
                "",
                "--appendonly",
                "no",
            ])
            .args([
                "--cluster-enabled",
                "yes",
                "--cluster-announce-ip",
                &address,
                "--cluster-node-timeout",
                "2000",
            ])
            .args([
                "--cluster-allow-replica-migration",
                "no",
                "--cluster-replica-validity-factor",
                "0",
            ])
            .args([
                "--cluster-require-full-coverage",
                "no",
                "--repl-diskless-sync-delay",
                "0",
            ])
            .arg("--dir")
            .arg(&folder)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .with_context(|| format!("starting {}", self.engine.name()))
    }

    /// Kills a process and starts a new one without data in its place, as the kubelet does.
    pub fn restart(&mut self, index: u32) -> Result<()> {
        self.stop(index)?;
        let process = self.launch(index)?;
        if let Some(place) = self.processes.get_mut(index as usize) {
            *place = Some(process);
        }
        Ok(())
    }

    /// Kills a process.
    pub fn stop(&mut self, index: u32) -> Result<()> {
        if let Some(mut process) = self.processes.get_mut(index as usize).and_then(Option::take) {
            process.kill()?;
            process.wait()?;
        }
        Ok(())
    }

    /// Sends a signal to a process, such as to freeze it.
    pub fn signal(&self, index: u32, signal: Signal) -> Result<()> {
        let process = self
            .processes
            .get(index as usize)
            .and_then(Option::as_ref)
            .context("no such process")?;
        Ok(kill(Pid::from_raw(i32::try_from(process.id())?), signal)?)
    }

    /// Looks at every process, as the operator looks at pods.
    pub async fn observe(&self) -> Observed {
        let mut members = Vec::new();
        for index in 0..self.wish.pods() {
            let at = self.address(index);
            let view = self.admin.view(at).await.map_err(|error| error.to_string());
            members.push(Member {
                pod: format!("pod-{index}"),
                shard: index / self.wish.members_per_shard,
                ip: Some(at),
                node: format!("node-{}", index % 2),
                created: Some(self.began),
                started: true,
                terminating: false,
                trouble: None,
                old_template: false,
                view,
            });
        }
        Observed { members }
    }

    /// One pass: observe, plan, check, act. Says what the plan was.
    pub async fn pass(&self) -> Result<Plan> {
        let observed = self.observe().await;
        let world = World::new(&observed);
        let plan = plan(self.wish, &world, Timestamp::now());
        check(&plan, &world)?;
        for step in &plan.steps {
            self.admin
                .act(step.ip, &step.id, &step.action)
                .await
                .with_context(|| step.to_string())?;
        }
        Ok(plan)
    }

    /// Passes until nothing is left to do. A step may fail on the way, as it may for the operator.
    pub async fn settle(&self, limit: Duration) -> Result<Observed> {
        let began = Instant::now();
        loop {
            let outcome = self.pass().await;
            if let Ok(plan) = &outcome
                && plan.is_done()
            {
                return Ok(self.observe().await);
            }
            if began.elapsed() > limit {
                bail!("not settled after {limit:?}: {outcome:#?}");
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        for mut process in self.processes.drain(..).flatten() {
            let _ = process.kill();
            let _ = process.wait();
        }
        let _ = fs::remove_dir_all(&self.folder);
    }
}
