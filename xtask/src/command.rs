//! Running other programs.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};

use anyhow::{Context as _, Result};

/// A command that runs in `folder` and never asks the person anything.
pub fn command(folder: &Path, program: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(arguments).current_dir(folder).stdin(Stdio::null());
    command
}

/// Runs a command with its output on ours; says whether it ended well.
pub fn succeeds(mut command: Command) -> Result<bool> {
    let status = command
        .status()
        .with_context(|| format!("run {}", command.get_program().display()))?;
    Ok(status.success())
}

/// Runs a command, passes every line of its standard output on as it comes, and shows it to `see` first.
pub fn stream(mut command: Command, mut see: impl FnMut(&str)) -> Result<ExitStatus> {
    let program = command.get_program().to_owned();
    let mut child = command
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| format!("run {}", program.display()))?;
    if let Some(output) = child.stdout.take() {
        let mut lines = BufReader::new(output);
        let mut line = Vec::new();
        let mut ours = std::io::stdout();
        while lines
            .read_until(b'\n', &mut line)
            .with_context(|| format!("read from {}", program.display()))?
            > 0
        {
            see(String::from_utf8_lossy(&line).trim_end());
            // A reader that went away is no reason to stop the tests half way.
            let _ = ours.write_all(&line).and_then(|()| ours.flush());
            line.clear();
        }
    }
    child
        .wait()
        .with_context(|| format!("wait for {}", program.display()))
}

/// Whether a program can be run at all.
pub fn exists(program: &str, arguments: &[&str]) -> bool {
    Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}
