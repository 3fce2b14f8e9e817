//! The checks of `make lint`. All of them run, so that one round shows everything that is wrong.

use std::path::Path;

use anyhow::{Result, bail};

use crate::command::{command, exists, succeeds};
use crate::count::Count;
use crate::generate;

/// The charts that Helm looks at.
const CHARTS: &[&str] = &["charts/foreshard-crds", "charts/foreshard"];

/// One thing to look at; the answer is whether it is fine.
struct Check {
    name: &'static str,
    look: fn(&Path) -> Result<bool>,
}

const CHECKS: &[Check] = &[
    Check {
        name: "format",
        look: format,
    },
    Check {
        name: "clippy",
        look: clippy,
    },
    Check {
        name: "dependencies",
        look: dependencies,
    },
    Check {
        name: "generated files",
        look: generate::check,
    },
    Check {
        name: "charts",
        look: charts,
    },
];

/// Runs every check and counts each as one test; the last line is `N passed, M failed`.
pub fn run(root: &Path) -> bool {
    let mut count = Count::default();
    let mut bad = Vec::new();
    for check in CHECKS {
        println!("--- {}", check.name);
        let fine = (check.look)(root).unwrap_or_else(|error| {
            eprintln!("xtask: {error:#}");
            false
        });
        if fine {
            count.passed += 1;
        } else {
            count.failed += 1;
            bad.push(check.name);
        }
    }
    if !bad.is_empty() {
        println!("failed: {}", bad.join(", "));
    }
    println!("{count}");
    bad.is_empty()
}

fn format(root: &Path) -> Result<bool> {
    succeeds(command(root, "cargo", &["fmt", "--all", "--check"]))
}

fn clippy(root: &Path) -> Result<bool> {
    let arguments = [
        "clippy",
        "--workspace",
        "--all-targets",
        "--all-features",
        "--",
        "-D",
        "warnings",
    ];
    succeeds(command(root, "cargo", &arguments))
}

fn dependencies(root: &Path) -> Result<bool> {
    if !exists("cargo", &["deny", "--version"]) {
        println!("Installing cargo-deny. This takes some minutes, once.");
        if !succeeds(command(root, "cargo", &["install", "--locked", "cargo-deny"]))? {
            bail!("cargo-deny could not be installed; try `cargo install --locked cargo-deny` by hand");
        }
    }
    let mut checks = vec!["deny", "check", "bans", "licenses", "sources"];
    if exists("cargo", &["deny", "fetch", "db"]) {
        checks.push("advisories");
    } else {
        println!("The database of advisories cannot be reached: known vulnerabilities were not looked for.");
    }
    succeeds(command(root, "cargo", &checks))
}

/// Helm comes with the testbed's programs, which `make lint` builds before.
fn charts(root: &Path) -> Result<bool> {
    let helm = root.join(".testbed/bin/helm");
    let Some(helm) = helm.to_str().filter(|_| helm.exists()) else {
        bail!("Helm is not built yet; `make lint` does that");
    };
    let mut fine = true;
    for chart in CHARTS {
        fine &= succeeds(command(root, helm, &["lint", "--strict", chart]))?;
    }
    Ok(fine)
}
