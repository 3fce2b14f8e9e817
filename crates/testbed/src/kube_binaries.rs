//! The Kubernetes programs: one Go program that is all of them, built from the module proxy.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};

use crate::images::oci;
use crate::paths::Paths;
use crate::progress::{Steps, Ticker};

/// The Kubernetes version, as `testbed/kube/go.mod` asks for it.
pub const VERSION: &str = "v1.36.4";

/// The names the program is called by, which is how it knows what to be.
pub const PROGRAMS: &[&str] = &[
    "coredns",
    "etcd",
    "helm",
    "host-path-provisioner",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-proxy",
    "kube-scheduler",
    "kubectl",
    "kubelet",
    "metrics-server",
];

/// The multi-call program itself.
const BINARY: &str = "kube";
/// About as many packages as a first build compiles, to show how far it is.
const PACKAGES: usize = 3_200;

/// Builds the programs, unless they are there already from the same sources.
pub fn ensure(paths: &Paths) -> Result<()> {
    let bin = paths.bin();
    let key = key(paths)?;
    let key_file = bin.join("kube.key");
    let fresh = fs::read_to_string(&key_file).is_ok_and(|built| built == key);
    if !fresh || !bin.join(BINARY).is_file() {
        fs::create_dir_all(&bin).with_context(|| format!("make {}", bin.display()))?;
        build(paths)?;
        fs::write(&key_file, key).with_context(|| format!("write {}", key_file.display()))?;
    }
    link(&bin)
}

fn key(paths: &Paths) -> Result<String> {
    let folder = paths.root().join("testbed/kube");
    let mut names: Vec<_> = fs::read_dir(&folder)
        .with_context(|| format!("read {}", folder.display()))?
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.is_file())
        .collect();
    names.sort();
    let mut bytes = flags().into_bytes();
    for name in names {
        bytes.extend(name.file_name().unwrap_or_default().as_encoded_bytes());
        bytes.extend(fs::read(&name).with_context(|| format!("read {}", name.display()))?);
    }
    Ok(oci::digest(&bytes))
}

/// Without a version the API server says v0.0.0, which clients and charts refuse.
fn flags() -> String {
    let mut parts = VERSION.trim_start_matches('v').split('.');
    let (major, minor) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let version = "k8s.io/component-base/version";
    format!(
        "-s -w -X {version}.gitVersion={VERSION} -X {version}.gitMajor={major} -X {version}.gitMinor={minor} -X {version}.gitTreeState=clean"
    )
}

fn build(paths: &Paths) -> Result<()> {
    println!(
        "Building Kubernetes {VERSION} from source with Go (kube-apiserver, kubelet, etcd, CoreDNS, kubectl, helm, …)."
    );
    println!("The first time this takes about 10 minutes on two cores; later builds take seconds.");
    // Beside the one in use, so that a build that is broken off leaves it whole.
    let output = paths.bin().join("kube.new");
    let mut child = Command::new("go")
        .args([
            "build",
            "-v",
            "-trimpath",
            "-buildvcs=false",
            "-ldflags",
            &flags(),
            "-o",
        ])
        .arg(&output)
        .arg(".")
        .current_dir(paths.root().join("testbed/kube"))
        .env("CGO_ENABLED", "0")
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .context("run go; `make setup` installs it")?;
    let stderr = child.stderr.take().context("read what go says")?;
    let tail = show_progress(stderr)?;
    let status = child.wait().context("wait for go")?;
    if !status.success() {
        bail!("go build: {status}:\n{}", tail.join("\n"));
    }
    fs::rename(&output, paths.bin().join(BINARY)).context("put the new build in its place")
}

/// Counts the packages go names as it compiles them, and keeps the last lines for an error message.
fn show_progress(stderr: impl std::io::Read + Send + 'static) -> Result<Vec<String>> {
    let (sender, lines) = mpsc::channel();
    let reader = thread::spawn(move || {
        for line in BufReader::new(stderr).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                break;
            }
        }
    });
    let steps = Steps::start();
    let mut ticker = Ticker::start();
    let mut tail: Vec<String> = Vec::new();
    let (mut compiled, mut fetched) = (0_usize, 0_usize);
    loop {
        match lines.recv_timeout(Duration::from_millis(500)) {
            Ok(line) => {
                if line.starts_with("go: ") {
                    fetched += 1;
                } else {
                    compiled += 1;
                }
                tail.push(line);
                if tail.len() > 20 {
                    tail.remove(0);
                }
            }
            Err(mpsc::RecvTimeoutError::Timeout) => {}
            Err(mpsc::RecvTimeoutError::Disconnected) => break,
        }
        if compiled == 0 && fetched > 0 {
            ticker.show(&format!("fetching modules, {fetched} so far"));
        } else {
            ticker.show(&format!(
                "compiling, {compiled} of about {PACKAGES} packages so far"
            ));
        }
    }
    ticker.end();
    if reader.join().is_err() {
        bail!("reading what go says ended by accident");
    }
    steps.say(&format!("Built Kubernetes {VERSION}"));
    Ok(tail)
}

fn link(bin: &Path) -> Result<()> {
    for name in PROGRAMS {
        let path = bin.join(name);
        if fs::read_link(&path).is_ok_and(|target| target == Path::new(BINARY)) {
            continue;
        }
        let _ = fs::remove_file(&path);
        symlink(BINARY, &path).with_context(|| format!("link {}", path.display()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_build_knows_its_version() {
        let flags = flags();
        assert!(flags.contains("gitVersion=v1.36.4"));
        assert!(flags.contains("gitMajor=1 ") && flags.contains("gitMinor=36 "));
    }
}
