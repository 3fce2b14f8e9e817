//! Where everything lies. One place decides, so that cleaning up knows what to look at.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};

/// The longest path of a unix socket Linux takes is 107 bytes; this is the longest tail the testbed adds to its folder.
const LONGEST_SOCKET_TAIL: usize = "/run/node99/containerd/containerd.sock.ttrpc".len();

/// The folders of one checkout's testbed.
#[derive(Debug, Clone)]
pub struct Paths {
    root: PathBuf,
}

impl Paths {
    /// The checkout named by `FORESHARD_ROOT`, else the one this program was compiled in.
    pub fn find() -> Result<Self> {
        let root = match std::env::var_os("FORESHARD_ROOT") {
            Some(root) => PathBuf::from(root),
            None => Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."),
        };
        let root = root
            .canonicalize()
            .with_context(|| format!("look for the repository at {}", root.display()))?;
        Self::at(root)
    }

    /// The checkout at `root`.
    pub fn at(root: impl Into<PathBuf>) -> Result<Self> {
        let paths = Self { root: root.into() };
        let socket = paths.work().as_os_str().len() + LONGEST_SOCKET_TAIL;
        if socket > 107 {
            bail!(
                "the repository's path {} is too long: unix sockets below it would have {socket} bytes, 107 are allowed",
                paths.root.display()
            );
        }
        Ok(paths)
    }

    /// The repository itself.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Everything the testbed makes.
    #[must_use]
    pub fn work(&self) -> PathBuf {
        self.root.join(".testbed")
    }

    /// The Kubernetes binaries, kept between runs.
    #[must_use]
    pub fn bin(&self) -> PathBuf {
        self.work().join("bin")
    }

    /// Images and root file systems, kept between runs.
    #[must_use]
    pub fn images(&self) -> PathBuf {
        self.work().join("images")
    }

    /// The live cluster; removed when it goes down.
    #[must_use]
    pub fn run(&self) -> PathBuf {
        self.work().join("run")
    }

    /// Logs of the live cluster, one file per component.
    #[must_use]
    pub fn logs(&self) -> PathBuf {
        self.run().join("logs")
    }

    /// The log of one component.
    #[must_use]
    pub fn log(&self, component: &str) -> PathBuf {
        self.logs().join(format!("{component}.log"))
    }

    /// Certificates and keys.
    #[must_use]
    pub fn pki(&self) -> PathBuf {
        self.run().join("pki")
    }

    /// The administrator's kubeconfig.
    #[must_use]
    pub fn kubeconfig(&self) -> PathBuf {
        self.run().join("kubeconfig")
    }

    /// The folder that holds the volumes.
    #[must_use]
    pub fn volumes(&self) -> PathBuf {
        self.run().join("volumes")
    }

    /// The folder of one node.
    #[must_use]
    pub fn node(&self, number: u8) -> PathBuf {
        self.run().join(format!("node{number}"))
    }

    /// One of the Kubernetes programs.
    #[must_use]
    pub fn program(&self, name: &str) -> PathBuf {
        self.bin().join(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refuses_a_path_too_long_for_sockets() {
        assert!(Paths::at("/srv/foreshard").is_ok());
        assert!(Paths::at(format!("/{}", "x".repeat(80))).is_err());
    }
}
