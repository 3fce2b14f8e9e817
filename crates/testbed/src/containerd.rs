//! One containerd per node, with its own root, state and socket, and the images it is given.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result};
use nix::mount::{MsFlags, mount};

use crate::addresses::{namespace, pod_range};
use crate::images::{Archive, PAUSE_IMAGE};
use crate::paths::Paths;
use crate::process::{self, Component};
use crate::{run, wait};

/// containerd's own namespace for what Kubernetes runs.
pub const NAMESPACE: &str = "k8s.io";
/// The start of the CNI networks' names, by which their leftovers on the host are known to be ours.
pub const CNI_NETWORK_PREFIX: &str = "foreshard-testbed-";

const SOCKET_TIMEOUT: Duration = Duration::from_mins(1);

/// The containerd of one node.
#[derive(Debug, Clone)]
pub struct Containerd<'a> {
    paths: &'a Paths,
    number: u8,
}

impl<'a> Containerd<'a> {
    /// The containerd of a node, running or not.
    #[must_use]
    pub fn of(paths: &'a Paths, number: u8) -> Self {
        Self { paths, number }
    }

    /// Its name in logs and records.
    #[must_use]
    pub fn name(&self) -> String {
        format!("containerd-{}", self.number)
    }

    /// Its socket.
    #[must_use]
    pub fn socket(&self) -> PathBuf {
        self.folder().join("containerd.sock")
    }

    /// What a reboot would wipe: tasks, mounts, pods' network namespaces.
    #[must_use]
    pub fn state(&self) -> PathBuf {
        self.folder().join("state")
    }

    /// The folder with one bundle per running container and sandbox.
    #[must_use]
    pub fn bundles(&self) -> PathBuf {
        self.state().join("io.containerd.runtime.v2.task").join(NAMESPACE)
    }

    /// Where runc keeps what it knows of running containers.
    #[must_use]
    pub fn runc(&self) -> PathBuf {
        self.folder().join("runc")
    }

    /// Writes the configuration and starts it.
    pub fn start(&self) -> Result<()> {
        let folder = self.folder();
        self.mount()?;
        let cni = folder.join("cni");
        fs::create_dir_all(&cni).with_context(|| format!("make {}", cni.display()))?;
        fs::write(cni.join("10-pods.conflist"), self.network()).context("write the CNI configuration")?;
        let config = folder.join("config.toml");
        fs::write(&config, self.config()).context("write containerd's configuration")?;
        process::start(
            self.paths,
            &Component {
                name: self.name(),
                namespace: namespace(self.number),
                program: PathBuf::from("containerd"),
                arguments: vec!["--config".into(), config.display().to_string()],
            },
        )?;
        let what = format!("containerd of node {} to answer", self.number);
        wait::for_component(self.paths, &self.name(), &what, SOCKET_TIMEOUT, || {
            self.ctr(&["version"]).map(|_| Some(()))
        })
    }

    /// Keeps everything of containerd in memory.
    ///
    /// Removing a container flushes the file system its layers are on; on a disk that a compiler writes to at the
    /// same time, one pod's end then takes seconds.
    fn mount(&self) -> Result<()> {
        let folder = self.folder();
        fs::create_dir_all(&folder).with_context(|| format!("make {}", folder.display()))?;
        let device = |path: &Path| fs::metadata(path).map(|metadata| metadata.dev());
        if device(&folder)? != device(&self.paths.node(self.number))? {
            // A node that is started again finds its disk as it was.
            return Ok(());
        }
        mount(
            Some("foreshard-testbed"),
            &folder,
            Some("tmpfs"),
            MsFlags::empty(),
            Some("mode=0755"),
        )
        .with_context(|| format!("mount {}", folder.display()))
    }

    /// Loads images, leaving out those that are there already with the same content.
    pub fn import(&self, archives: &[Archive]) -> Result<usize> {
        let present = self.ctr(&["images", "list"])?;
        let mut imported = 0;
        for archive in archives {
            let there = present.lines().any(|line| {
                let mut words = line.split_whitespace();
                words.next() == Some(archive.name.as_str()) && words.any(|word| word == archive.digest)
            });
            if !there {
                let path = archive.path.display().to_string();
                self.ctr(&["images", "import", "--no-unpack=false", &path])
                    .with_context(|| format!("load {} into node {}", archive.name, self.number))?;
                imported += 1;
            }
        }
        Ok(imported)
    }

    fn ctr(&self, arguments: &[&str]) -> Result<String> {
        run::output(
            Command::new("ctr")
                .arg("--address")
                .arg(self.socket())
                .args(["--namespace", NAMESPACE])
                .args(arguments),
        )
    }

    fn folder(&self) -> PathBuf {
        self.paths.node(self.number).join("containerd")
    }

    fn config(&self) -> String {
        let folder = self.folder();
        let folder = folder.display();
        // restrict_oom_score_adj: without CAP_SYS_RESOURCE runc dies lowering the score of a sandbox.
        // netns_mounts_under_state_dir: keeps pods' namespaces in our folder instead of the host's /var/run/netns.
        // runc's Root and the opt path: their defaults are folders of the host.
        format!(
            r#"version = 2
root = "{folder}/root"
state = "{folder}/state"
disabled_plugins = ["io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.zfs", "io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.devmapper"]
[grpc]
  address = "{folder}/containerd.sock"
[plugins."io.containerd.internal.v1.opt"]
  path = "{folder}/opt"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{PAUSE_IMAGE}"
  disable_apparmor = true
  restrict_oom_score_adj = true
  netns_mounts_under_state_dir = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "{folder}/cni"
  [plugins."io.containerd.grpc.v1.cri".containerd]
    default_runtime_name = "runc"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        Root = "{runc}"
"#,
            runc = self.runc().display(),
        )
    }

    fn network(&self) -> String {
        let addresses = self.folder().join("addresses");
        let network = serde_json::json!({
            "cniVersion": "0.4.0",
            "name": format!("{CNI_NETWORK_PREFIX}{}", self.number),
            "plugins": [{
                "type": "bridge",
                "bridge": "cni0",
                "isGateway": true,
                "ipMasq": false,
                "hairpinMode": true,
                "ipam": {
                    "type": "host-local",
                    "ranges": [[{"subnet": pod_range(self.number)}]],
                    "routes": [{"dst": "0.0.0.0/0"}],
                    "dataDir": addresses,
                },
            }],
        });
        format!("{network:#}\n")
    }
}
