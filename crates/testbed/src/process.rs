//! Long-running components: starting them, remembering which process is which, and stopping exactly those.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};

use crate::netns;
use crate::paths::Paths;
use crate::wait;

/// How long a component may take to end after being asked before it is made to.
const POLITE: Duration = Duration::from_secs(10);

/// A process as it was when it was started. The start time tells it apart from a later one with the same number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process {
    /// The process' number.
    pub pid: i32,
    /// When it started, in the kernel's clock ticks since boot.
    pub started: u64,
}

impl Process {
    /// The process that has this number now, if it runs.
    #[must_use]
    pub fn now(pid: i32) -> Option<Self> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        parse_stat(&stat).map(|started| Self { pid, started })
    }

    /// Whether this very process still runs.
    #[must_use]
    pub fn alive(&self) -> bool {
        Self::now(self.pid) == Some(*self)
    }

    /// Sends a signal, unless the process is gone already.
    pub fn signal(&self, signal: Signal) {
        if self.alive() {
            // It may end between the look and the signal, which is what was wanted anyway.
            let _ = kill(Pid::from_raw(self.pid), signal);
        }
    }

    /// Ends the process and waits until it is gone.
    pub fn end(&self, signal: Signal) -> Result<()> {
        self.signal(signal);
        let gone = || Ok((!self.alive()).then_some(()));
        if signal != Signal::SIGKILL && wait::until("", POLITE, gone).is_ok() {
            return Ok(());
        }
        self.signal(Signal::SIGKILL);
        wait::until(&format!("process {} to end", self.pid), POLITE, gone)
    }
}

/// The start time out of `/proc/<pid>/stat`; nothing for a process that has ended and only waits for its parent.
fn parse_stat(stat: &str) -> Option<u64> {
    // The program's name is in parentheses and may hold spaces and parentheses itself.
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_whitespace();
    let state = fields.next()?;
    if state == "Z" || state == "X" {
        return None;
    }
    fields.nth(18)?.parse().ok()
}

/// A component: a name for its log and record, where it runs and what.
#[derive(Debug, Clone)]
pub struct Component {
    /// Names its log file and its record.
    pub name: String,
    /// The network namespace it runs in.
    pub namespace: String,
    /// What to run.
    pub program: PathBuf,
    /// With which arguments.
    pub arguments: Vec<String>,
}

/// Starts a component in the background. It outlives this program and its terminal.
pub fn start(paths: &Paths, component: &Component) -> Result<Process> {
    let log_path = paths.log(&component.name);
    // Appended, so that what a component said before it was killed can still be read after its restart.
    let log = File::options()
        .create(true)
        .append(true)
        .open(&log_path)
        .with_context(|| format!("open {}", log_path.display()))?;
    let mut command = Command::new("setsid");
    without_proxy(&mut command);
    // Both setsid and nsenter become the program they run, so the process number stays the one we see here.
    let child = command
        .args([
            "nsenter",
            &format!("--net={}", netns::path(&component.namespace).display()),
        ])
        .arg(&component.program)
        .args(&component.arguments)
        .current_dir(paths.run())
        .stdin(Stdio::null())
        .stdout(log.try_clone().context("share the log file")?)
        .stderr(log)
        .spawn()
        .with_context(|| format!("start {}", component.name))?;
    let pid = i32::try_from(child.id()).context("read the process number")?;
    let process = Process::now(pid)
        .with_context(|| format!("{} ended at once; read {}", component.name, log_path.display()))?;
    let record = serde_json::to_string(&process).context("write the process record")?;
    let record_path = record_path(paths, &component.name);
    fs::write(&record_path, record).with_context(|| format!("write {}", record_path.display()))?;
    Ok(process)
}

/// Nothing outside can be reached from the testbed's network, a proxy least of all.
pub fn without_proxy(command: &mut Command) {
    for name in [
        "HTTP_PROXY",
        "HTTPS_PROXY",
        "ALL_PROXY",
        "http_proxy",
        "https_proxy",
        "all_proxy",
    ] {
        command.env_remove(name);
    }
}

/// The recorded process of a component, running or not.
#[must_use]
pub fn recorded(paths: &Paths, name: &str) -> Option<Process> {
    let text = fs::read_to_string(record_path(paths, name)).ok()?;
    serde_json::from_str(&text).ok()
}

/// Whether a component runs.
#[must_use]
pub fn running(paths: &Paths, name: &str) -> bool {
    recorded(paths, name).is_some_and(|process| process.alive())
}

/// All recorded components, sorted by name.
#[must_use]
pub fn all_recorded(paths: &Paths) -> Vec<(String, Process)> {
    let mut found: Vec<(String, Process)> = fs::read_dir(records(paths))
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| {
            let name = entry.file_name().to_str()?.strip_suffix(".json")?.to_owned();
            let process = recorded(paths, &name)?;
            Some((name, process))
        })
        .collect();
    found.sort_by(|a, b| a.0.cmp(&b.0));
    found
}

/// Stops a component if it runs.
pub fn stop(paths: &Paths, name: &str, signal: Signal) -> Result<()> {
    match recorded(paths, name) {
        Some(process) => process.end(signal).with_context(|| format!("stop {name}")),
        None => Ok(()),
    }
}

/// Processes that belong to a testbed at this place by their own words: a component's name and the run folder in
/// their arguments. Finds what a crash left behind when the records are gone.
#[must_use]
pub fn by_arguments(paths: &Paths, programs: &[&str]) -> Vec<Process> {
    let run = format!("{}/", paths.run().display());
    pids()
        .filter(|pid| {
            let Ok(line) = fs::read(format!("/proc/{pid}/cmdline")) else {
                return false;
            };
            let line = String::from_utf8_lossy(&line).into_owned();
            let mut words = line.split('\0');
            let program = words.next().map(Path::new).and_then(Path::file_name);
            program.is_some_and(|program| programs.iter().any(|known| program == *known))
                && words.any(|word| word.contains(&run))
        })
        .filter_map(Process::now)
        .collect()
}

/// The numbers of all processes on the machine.
pub fn pids() -> impl Iterator<Item = i32> {
    fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

fn records(paths: &Paths) -> PathBuf {
    paths.run().join("pids")
}

fn record_path(paths: &Paths, name: &str) -> PathBuf {
    records(paths).join(format!("{name}.json"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_start_time_past_a_name_with_parentheses() {
        let stat = "42 (a) b (c) S 1 42 42 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 98765 0 0";
        assert_eq!(parse_stat(stat), Some(98765));
    }

    #[test]
    fn a_zombie_does_not_run() {
        let stat = "42 (sh) Z 1 42 42 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 98765 0 0";
        assert_eq!(parse_stat(stat), None);
    }

    #[test]
    fn a_reused_number_is_another_process() {
        let me = Process::now(i32::try_from(std::process::id()).unwrap()).unwrap();
        assert!(me.alive());
        let earlier = Process {
            started: me.started - 1,
            ..me
        };
        assert!(!earlier.alive());
    }
}
