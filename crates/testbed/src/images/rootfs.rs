//! Root file systems out of Debian packages, made by `mmdebstrap`, and small ones made by hand.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result};

use super::oci::header;
use crate::{apt_sources, run};

/// What packages bring along and no store uses: texts, and the parts of systemd and Perl that start them on a machine.
const LEFT_OUT: &[&str] = &[
    "/usr/share/*",
    "/usr/lib/systemd/*",
    "/usr/lib/udev/*",
    "/usr/bin/systemd*",
    "/usr/bin/perl*",
    "/usr/lib/x86_64-linux-gnu/gconv/*",
    "/usr/lib/x86_64-linux-gnu/perl*",
    "/usr/lib/x86_64-linux-gnu/libperl*",
    "/usr/lib/x86_64-linux-gnu/systemd/*",
];

/// A folder or file of a hand-made layer.
#[derive(Debug)]
pub enum Entry<'a> {
    /// A folder with its mode and owner.
    Folder(&'a str, u32, u64),
    /// A file with its mode and content.
    File(&'a str, u32, &'a [u8]),
}

/// A tar archive with just these entries.
pub fn layer(entries: &[Entry<'_>]) -> Result<Vec<u8>> {
    let mut tar = tar::Builder::new(Vec::new());
    for entry in entries {
        match entry {
            Entry::Folder(path, mode, owner) => {
                let mut header = header(tar::EntryType::Directory, *mode, *owner);
                tar.append_data(&mut header, path, std::io::empty())?;
            }
            Entry::File(path, mode, content) => {
                let mut header = header(tar::EntryType::Regular, *mode, 0);
                header.set_size(content.len() as u64);
                tar.append_data(&mut header, path, *content)?;
            }
        }
    }
    tar.into_inner().context("write a layer")
}

/// Makes a root file system with these packages of a Debian suite, as a tar archive.
pub fn from_packages(suite: &str, packages: &[&str], archive: &Path) -> Result<()> {
    let options: Vec<String> = LEFT_OUT
        .iter()
        .map(|path| format!("--dpkgopt=path-exclude={path}"))
        .collect();
    bootstrap(suite, packages, archive, &options).with_context(|| {
        format!(
            "make a root file system from Debian {suite} with {}",
            packages.join(", ")
        )
    })
}

fn bootstrap(suite: &str, packages: &[&str], target: &Path, options: &[String]) -> Result<()> {
    let mirror = apt_sources::mirror()?;
    run::output(
        Command::new("mmdebstrap")
            // Files only: nothing of the packages is run, so it needs no chroot that works.
            .arg("--variant=extract")
            .arg("--hook-dir=/usr/share/mmdebstrap/hooks/merged-usr")
            // Mirrors may be snapshots from the past.
            .arg("--aptopt=Acquire::Check-Valid-Until \"false\"")
            .arg(format!("--include={}", packages.join(",")))
            .args(options)
            .arg(suite)
            .arg(target)
            .arg(mirror),
    )?;
    Ok(())
}

/// Unpacks a root file system for use without a container. Devices are left out.
pub fn extract(archive: &Path, folder: &Path) -> Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("make {}", folder.display()))?;
    run::output(
        Command::new("tar")
            .args(["--no-same-owner", "--exclude=./dev/*", "-xf"])
            .arg(archive)
            .arg("-C")
            .arg(folder),
    )?;
    Ok(())
}
