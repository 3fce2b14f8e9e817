//! The stores of this project as programs on loopback, straight out of their images' root file systems.
//!
//! Each is run with the dynamic loader and the libraries of its own root, so neither a container, a change of root
//! nor the right to do so is needed, and a newer C library than the machine's is no obstacle.

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;

use crate::images;
use crate::paths::Paths;

/// Where Debian keeps the libraries of this architecture.
const LIBRARIES: &str = "usr/lib/x86_64-linux-gnu";
const LOADER: &str = "ld-linux-x86-64.so.2";

/// A store and its version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Engine {
    /// Valkey 9.1, which moves slots atomically.
    Valkey91,
    /// Valkey 8.1.
    Valkey81,
    /// Redis 7.0.
    Redis70,
    /// Redis 8.0.
    Redis80,
    /// Memcached 1.6.
    Memcached,
}

impl Engine {
    /// Every engine.
    #[must_use]
    pub fn all() -> &'static [Self] {
        &[
            Self::Valkey91,
            Self::Valkey81,
            Self::Redis70,
            Self::Redis80,
            Self::Memcached,
        ]
    }

    /// The engines that speak the Redis protocol and can form a cluster: all but memcached.
    #[must_use]
    pub fn all_stores() -> &'static [Self] {
        &[Self::Valkey91, Self::Valkey81, Self::Redis70, Self::Redis80]
    }

    /// A short name, as in `testbed images <name>` and folder names.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Valkey91 => "valkey-9.1",
            Self::Valkey81 => "valkey-8.1",
            Self::Redis70 => "redis-7.0",
            Self::Redis80 => "redis-8.0",
            Self::Memcached => "memcached-1.6",
        }
    }

    /// The engine with this short name.
    #[must_use]
    pub fn by_name(name: &str) -> Option<Self> {
        Self::all().iter().copied().find(|engine| engine.name() == name)
    }

    /// The reference of its container image.
    #[must_use]
    pub fn image(self) -> &'static str {
        match self {
            Self::Valkey91 => "docker.io/valkey/valkey:9.1",
            Self::Valkey81 => "docker.io/valkey/valkey:8.1",
            Self::Redis70 => "docker.io/library/redis:7.0",
            Self::Redis80 => "docker.io/library/redis:8.0",
            Self::Memcached => "docker.io/library/memcached:1.6",
        }
    }

    /// The name of its server program.
    #[must_use]
    pub fn server(self) -> &'static str {
        match self {
            Self::Valkey91 | Self::Valkey81 => "valkey-server",
            Self::Redis70 | Self::Redis80 => "redis-server",
            Self::Memcached => "memcached",
        }
    }

    /// The name of its client program; memcached has none.
    #[must_use]
    pub fn cli(self) -> Option<&'static str> {
        match self {
            Self::Valkey91 | Self::Valkey81 => Some("valkey-cli"),
            Self::Redis70 | Self::Redis80 => Some("redis-cli"),
            Self::Memcached => None,
        }
    }

    /// The Debian suite that has this version.
    pub(crate) fn suite(self) -> &'static str {
        match self {
            Self::Redis70 => "bookworm",
            Self::Valkey81 => "trixie",
            Self::Valkey91 | Self::Redis80 | Self::Memcached => "forky",
        }
    }

    /// The Debian packages it is made of.
    pub(crate) fn packages(self) -> &'static [&'static str] {
        match self {
            Self::Valkey91 | Self::Valkey81 => &["valkey-server", "valkey-tools"],
            Self::Redis70 | Self::Redis80 => &["redis-server", "redis-tools"],
            Self::Memcached => &["memcached"],
        }
    }

    /// The extracted root file system; there after [`ensure`].
    pub fn rootfs(self) -> Result<PathBuf> {
        Ok(Paths::find()?.images().join(self.name()).join("rootfs"))
    }

    /// A command that runs the server on the host. Call [`ensure`] first; add the arguments and spawn it.
    ///
    /// Memcached refuses to run as root unless told, so as root it is told.
    #[must_use]
    pub fn server_command(self) -> Command {
        let mut command = self.command(self.server());
        if self == Self::Memcached && nix::unistd::geteuid().is_root() {
            command.args(["-u", "root"]);
        }
        command
    }

    /// A command that runs the engine's own client on the host. Memcached has none: spawning it says so.
    #[must_use]
    pub fn cli_command(self) -> Command {
        self.command(self.cli().unwrap_or("memcached-has-no-client"))
    }

    fn command(self, program: &str) -> Command {
        // Without a repository there is no such file either: the spawn then says what is missing.
        let root = self.rootfs().unwrap_or_else(|_| PathBuf::from("."));
        command(&root, program)
    }
}

impl fmt::Display for Engine {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

/// Makes the root file systems and images of these engines that are missing.
pub fn ensure(engines: &[Engine]) -> Result<()> {
    images::ensure_stores(&Paths::find()?, engines)
}

fn command(root: &Path, program: &str) -> Command {
    let libraries = root.join(LIBRARIES);
    let mut command = Command::new(libraries.join(LOADER));
    command
        .arg("--library-path")
        .arg(&libraries)
        .arg(root.join("usr/bin").join(program));
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_runs_with_the_loader_of_its_own_root() {
        let command = command(Path::new("/r"), "valkey-server");
        assert_eq!(
            command.get_program(),
            "/r/usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2"
        );
        let arguments: Vec<_> = command.get_args().collect();
        assert_eq!(
            arguments,
            [
                "--library-path",
                "/r/usr/lib/x86_64-linux-gnu",
                "/r/usr/bin/valkey-server"
            ]
        );
    }

    #[test]
    fn names_find_their_engine() {
        for engine in Engine::all() {
            assert_eq!(Engine::by_name(engine.name()), Some(*engine));
        }
        assert_eq!(Engine::by_name("mysql"), None);
    }
}
