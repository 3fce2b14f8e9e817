//! Container images without Docker: stores from Debian programs from static binaries, the sandbox.
//!
//! Each image has a folder under `.testbed/images`: the archive, the root file system of a store, and a record with
//! the key of everything it was made from, so that it is made again only when that changes.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};
use serde::{Deserialize, Serialize};

use crate::engine::Engine;
use crate::paths::Paths;
use crate::progress::Steps;
use crate::run;

pub mod oci;
pub mod rootfs;

use oci::{Config, Layer};
use rootfs::Entry;

/// The sandbox image, named in containerd's configuration.
pub const PAUSE_IMAGE: &str = "docker.io/foreshard/pause:1";
/// The operator's image.
pub const OPERATOR_IMAGE: &str = "docker.io/foreshard/foreshard:dev";
/// The load generator's image.
pub const LOAD_IMAGE: &str = "docker.io/foreshard/load:dev";

/// Raised when images are made differently from the same inputs, so that nobody keeps old ones.
const RECIPE: &str = "3";
/// The end of the name of a folder that is not finished.
const STAGING: &str = ".new";
/// The user that stores run as, in the images people know too.
const STORE_USER: u64 = 999;
/// The user that programs run as; distroless images use the same.
const PROGRAM_USER: u64 = 65532;

/// A finished image.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Archive {
    /// The full reference that pods name.
    pub name: String,
    /// The digest of its manifest.
    pub digest: String,
    /// What it was made from.
    pub key: String,
    /// The archive on disk.
    pub path: PathBuf,
}

/// Every image that has been made.
pub fn all(paths: &Paths) -> Result<Vec<Archive>> {
    let mut archives = Vec::new();
    let folder = paths.images();
    if !folder.is_dir() {
        return Ok(archives);
    }
    for entry in fs::read_dir(&folder).with_context(|| format!("read {}", folder.display()))? {
        let path = entry?.path();
        if !path.to_string_lossy().ends_with(STAGING) {
            archives.extend(record(&path));
        }
    }
    archives.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(archives)
}

/// Makes the images of these stores that are missing or out of date.
pub fn ensure_stores(paths: &Paths, engines: &[Engine]) -> Result<()> {
    let _lock = lock(paths)?;
    let steps = Steps::start();
    for engine in engines {
        let folder = paths.images().join(engine.name());
        let key = store_key(*engine);
        if current(&folder, &key).is_some() && folder.join("rootfs").is_dir() {
            continue;
        }
        steps.say(&format!("Making {} from Debian packages", engine.image()));
        make_store(*engine, &folder, key)?;
    }
    Ok(())
}

/// Makes the sandbox image, if missing.
pub fn ensure_pause(paths: &Paths) -> Result<()> {
    let _lock = lock(paths)?;
    let source = paths.root().join("testbed/pause/pause.c");
    let text = fs::read(&source).with_context(|| format!("read {}", source.display()))?;
    let key = key(&[RECIPE.as_bytes(), &text]);
    let folder = paths.images().join("pause");
    if current(&folder, &key).is_some() {
        return Ok(());
    }
    fs::create_dir_all(&folder).with_context(|| format!("make {}", folder.display()))?;
    let binary = folder.join("binary");
    run::output(
        Command::new("musl-gcc")
            .args(["-static", "-Os", "-s", "-o"])
            .arg(&binary)
            .arg(&source),
    )
    .context("compile the sandbox's program")?;
    let content = fs::read(&binary).context("read the sandbox's program")?;
    let layer = rootfs::layer(&[Entry::File("pause", 0o755, &content)])?;
    let config = Config {
        user: "65535:65535".into(),
        entrypoint: vec!["/pause".into()],
        ..Config::default()
    };
    finish(&folder, PAUSE_IMAGE, key, &config, &[Layer::Memory(layer)]).map(drop)
}

/// Makes the image of one static program on an otherwise empty root.
///
/// Without an entrypoint of its own the image runs `/<file name of the binary>`.
pub fn make_program(paths: &Paths, name: &str, binary: &Path, entrypoint: &[String]) -> Result<Archive> {
    let _lock = lock(paths)?;
    let content = fs::read(binary).with_context(|| format!("read {}", binary.display()))?;
    if !content.starts_with(b"\x7fELF") {
        bail!("{} is not a program", binary.display());
    }
    let Some(file) = binary.file_name().and_then(|file| file.to_str()) else {
        bail!("{} has no file name", binary.display());
    };
    let entrypoint = if entrypoint.is_empty() {
        vec![format!("/{file}")]
    } else {
        entrypoint.to_vec()
    };
    let folder = paths.images().join(slug(name));
    let key = key(&[
        RECIPE.as_bytes(),
        name.as_bytes(),
        entrypoint.join("\0").as_bytes(),
        &content,
    ]);
    if let Some(archive) = current(&folder, &key) {
        return Ok(archive);
    }
    fs::create_dir_all(&folder).with_context(|| format!("make {}", folder.display()))?;
    let users = format!("root:x:0:0:root:/:/none\nnonroot:x:{PROGRAM_USER}:{PROGRAM_USER}:nonroot:/:/none\n");
    let groups = format!("root:x:0:\nnonroot:x:{PROGRAM_USER}:\n");
    let layer = rootfs::layer(&[
        Entry::Folder("etc", 0o755, 0),
        Entry::File("etc/passwd", 0o644, users.as_bytes()),
        Entry::File("etc/group", 0o644, groups.as_bytes()),
        Entry::Folder("tmp", 0o1777, 0),
        Entry::File(file, 0o755, &content),
    ])?;
    let config = Config {
        user: format!("{PROGRAM_USER}:{PROGRAM_USER}"),
        entrypoint,
        folder: "/".into(),
        ..Config::default()
    };
    finish(&folder, name, key, &config, &[Layer::Memory(layer)])
}

/// Builds the operator and the load generator as static programs and makes their images.
pub fn make_operator(paths: &Paths) -> Result<Vec<Archive>> {
    let target = "x86_64-unknown-linux-musl";
    // Shown as cargo shows it: this takes minutes the first time.
    let status = Command::new("cargo")
        .args([
            "build",
            "--release",
            "--target",
            target,
            "-p",
            "foreshard-operator",
            "-p",
            "foreshard-load",
        ])
        .current_dir(paths.root())
        .status()
        .context("run cargo")?;
    if !status.success() {
        bail!("cargo could not build the operator and the load generator");
    }
    let built = std::env::var_os("CARGO_TARGET_DIR")
        .map_or_else(|| paths.root().join("target"), PathBuf::from)
        .join(target)
        .join("release");
    Ok(vec![
        make_program(paths, OPERATOR_IMAGE, &built.join("foreshard"), &[])?,
        make_program(paths, LOAD_IMAGE, &built.join("foreshard-load"), &[])?,
    ])
}

/// Makes a store's image beside the old one and then swaps them: tests may be running the old one's programs.
fn make_store(engine: Engine, folder: &Path, key: String) -> Result<()> {
    let staging = folder.with_file_name(format!("{}{STAGING}", engine.name()));
    remove(&staging)?;
    fs::create_dir_all(&staging).with_context(|| format!("make {}", staging.display()))?;
    fill_store(engine, &staging, key)?;
    remove(folder)?;
    fs::rename(&staging, folder).with_context(|| format!("put {} in its place", folder.display()))
}

fn remove(folder: &Path) -> Result<()> {
    if folder.exists() {
        fs::remove_dir_all(folder).with_context(|| format!("remove {}", folder.display()))?;
    }
    Ok(())
}

fn fill_store(engine: Engine, folder: &Path, key: String) -> Result<()> {
    let base = folder.join("rootfs.tar");
    rootfs::from_packages(engine.suite(), &store_packages(engine), &base)?;
    rootfs::extract(&base, &folder.join("rootfs"))?;
    let name = engine.server().trim_end_matches("-server");
    let users =
        format!("root:x:0:0:root:/root:/bin/sh\n{name}:x:{STORE_USER}:{STORE_USER}:{name}:/data:/bin/sh\n");
    let groups = format!("root:x:0:\n{name}:x:{STORE_USER}:\n");
    let extras = rootfs::layer(&[
        Entry::File("etc/passwd", 0o644, users.as_bytes()),
        Entry::File("etc/group", 0o644, groups.as_bytes()),
        Entry::Folder("data", 0o755, STORE_USER),
        Entry::Folder("tmp", 0o1777, 0),
    ])?;
    let config = Config {
        user: format!("{STORE_USER}:{STORE_USER}"),
        command: vec![engine.server().to_owned()],
        folder: "/data".into(),
        ..Config::default()
    };
    finish(
        folder,
        engine.image(),
        key,
        &config,
        &[Layer::File(base.clone()), Layer::Memory(extras)],
    )?;
    // The archive holds it now; another copy of 60 MB per store is of no use.
    fs::remove_file(&base).with_context(|| format!("remove {}", base.display()))
}

/// The store itself and what start scripts use.
fn store_packages(engine: Engine) -> Vec<&'static str> {
    let mut packages = engine.packages().to_vec();
    packages.extend(["dash", "coreutils", "sed", "grep"]);
    packages
}

fn store_key(engine: Engine) -> String {
    let packages = store_packages(engine).join(" ");
    key(&[
        RECIPE.as_bytes(),
        engine.image().as_bytes(),
        engine.suite().as_bytes(),
        packages.as_bytes(),
    ])
}

fn finish(folder: &Path, name: &str, key: String, config: &Config, layers: &[Layer]) -> Result<Archive> {
    let path = folder.join("image.tar");
    let digest = oci::write(&path, name, config, layers)?;
    let archive = Archive {
        name: name.to_owned(),
        digest,
        key,
        path,
    };
    // Written last: a record means that everything before it is whole.
    let text = serde_json::to_string_pretty(&archive).context("write the image's record")?;
    fs::write(folder.join("image.json"), text).context("write the image's record")?;
    Ok(archive)
}

fn record(folder: &Path) -> Option<Archive> {
    let text = fs::read_to_string(folder.join("image.json")).ok()?;
    let mut archive: Archive = serde_json::from_str(&text).ok()?;
    // A checkout that was moved keeps its images.
    archive.path = folder.join("image.tar");
    archive.path.is_file().then_some(archive)
}

fn current(folder: &Path, key: &str) -> Option<Archive> {
    record(folder).filter(|archive| archive.key == key)
}

fn key(parts: &[&[u8]]) -> String {
    // Lengths first, so that no two different lists of parts run together to the same bytes.
    let mut bytes = Vec::new();
    for part in parts {
        bytes.extend((part.len() as u64).to_be_bytes());
        bytes.extend(*part);
    }
    oci::digest(&bytes)
}

/// A folder name for an image reference.
fn slug(name: &str) -> String {
    let last = name.rsplit('/').next().unwrap_or(name);
    let tidy: String = last
        .chars()
        .map(|letter| {
            if letter.is_ascii_alphanumeric() || letter == '.' {
                letter
            } else {
                '-'
            }
        })
        .collect();
    format!("program-{tidy}")
}

/// Tests that run at the same time may all ask for images; one makes them, the others wait.
fn lock(paths: &Paths) -> Result<File> {
    let folder = paths.images();
    fs::create_dir_all(&folder).with_context(|| format!("make {}", folder.display()))?;
    let file = File::create(folder.join(".lock")).context("make the lock of images")?;
    file.lock().context("wait for the lock of images")?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_differ_when_the_parts_do() {
        assert_ne!(key(&[b"ab", b"c"]), key(&[b"a", b"bc"]));
        assert_eq!(key(&[b"ab", b"c"]), key(&[b"ab", b"c"]));
    }

    #[test]
    fn folder_names_are_plain() {
        assert_eq!(slug("docker.io/foreshard/foreshard:dev"), "program-foreshard-dev");
    }

    #[test]
    fn a_program_image_is_made_once_per_content() {
        let folder = std::env::temp_dir().join(format!("testbed-images-{}", std::process::id()));
        let paths = Paths::at(&folder).unwrap();
        fs::create_dir_all(&folder).unwrap();
        let binary = folder.join("tool");
        fs::write(&binary, b"\x7fELF one").unwrap();
        let first = make_program(&paths, "docker.io/a/tool:1", &binary, &[]).unwrap();
        assert_eq!(
            make_program(&paths, "docker.io/a/tool:1", &binary, &[]).unwrap(),
            first
        );
        fs::write(&binary, b"\x7fELF two").unwrap();
        let second = make_program(&paths, "docker.io/a/tool:1", &binary, &[]).unwrap();
        assert_ne!(second.digest, first.digest);
        assert_eq!(all(&paths).unwrap(), [second]);
        fs::remove_dir_all(&folder).unwrap();
    }
}
