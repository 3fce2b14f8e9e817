//! Real servers on loopback, ended and cleaned up when dropped.

use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};

use foreshard_testbed::engine::{Engine, ensure};
use redis::Value;

/// Below the ephemeral ports, and with room for the cluster bus at +10000.
static NEXT_PORT: AtomicU16 = AtomicU16::new(0);

fn free_port() -> u16 {
    let first = u16::try_from(std::process::id() % 8000).unwrap() + 12_000;
    loop {
        let port = first + NEXT_PORT.fetch_add(1, Ordering::Relaxed);
        let free = |port| std::net::TcpListener::bind(("127.0.0.1", port)).is_ok();
        if free(port) && free(port + 10_000) {
            return port;
        }
    }
}

/// One server process.
pub struct Server {
    pub port: u16,
    folder: PathBuf,
    options: Vec<String>,
    process: Child,
}

impl Server {
    pub fn start(options: &[&str]) -> Self {
        let port = free_port();
        let folder = std::env::temp_dir().join(format!("foreshard-load-{}-{port}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let mut all = vec![
            "--port".to_owned(),
            port.to_string(),
            "--bind".into(),
            "127.0.0.1".into(),
        ];
        all.extend([
            "--save".into(),
            String::new(),
            "--dir".into(),
            folder.display().to_string(),
        ]);
        all.extend(options.iter().map(ToString::to_string));
        let process = spawn(&all);
        let server = Self {
            port,
            folder,
            options: all,
            process,
        };
        server.wait_until_up();
        server
    }

    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Ends the process as a crash would.
    pub fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    pub fn start_again(&mut self) {
        self.process = spawn(&self.options);
        self.wait_until_up();
    }

    pub fn command(&self, words: &[&str]) -> Value {
        self.try_command(words)
            .unwrap_or_else(|error| panic!("{words:?} on {}: {error}", self.port))
    }

    /// Drops the links to replicas. They cannot come back, as they do not know the new password;
    /// clients that are connected stay.
    pub fn cut_replicas_off(&self) {
        let client = redis::Client::open(("127.0.0.1", self.port)).unwrap();
        let mut connection = client.get_connection().unwrap();
        for words in [
            ["CONFIG", "SET", "requirepass", "x"],
            ["CLIENT", "KILL", "TYPE", "replica"],
        ] {
            redis::Cmd::new().arg(&words).exec(&mut connection).unwrap();
        }
    }

    pub fn text(&self, words: &[&str]) -> String {
        redis::from_redis_value(self.command(words)).unwrap()
    }

    fn try_command(&self, words: &[&str]) -> redis::RedisResult<Value> {
        let client = redis::Client::open(("127.0.0.1", self.port))?;
        let mut connection = client.get_connection_with_timeout(Duration::from_secs(1))?;
        let mut command = redis::Cmd::new();
        for word in words {
            command.arg(*word);
        }
        command.query(&mut connection)
    }

    fn wait_until_up(&self) {
        wait_until("the server answers", || self.try_command(&["PING"]).is_ok());
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn spawn(options: &[String]) -> Child {
    // Built once, by whoever comes first.
    ensure(&[Engine::Valkey91]).unwrap();
    Engine::Valkey91
        .server_command()
        .args(options)
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

/// Three primaries, of which the first `replicas` have a replica: `nodes[3]` follows `nodes[0]`.
pub fn cluster(replicas: usize) -> Vec<Server> {
    let options = [
        "--cluster-enabled",
        "yes",
        "--cluster-node-timeout",
        "1000",
        "--repl-diskless-sync-delay",
        "0",
    ];
    let nodes: Vec<Server> = (0..3 + replicas).map(|_| Server::start(&options)).collect();
    for (node, (first, last)) in nodes
        .iter()
        .zip([("0", "5460"), ("5461", "10922"), ("10923", "16383")])
    {
        node.command(&["CLUSTER", "ADDSLOTSRANGE", first, last]);
    }
    for (epoch, node) in nodes.iter().enumerate() {
        node.command(&["CLUSTER", "SET-CONFIG-EPOCH", &(epoch + 1).to_string()]);
        nodes[0].command(&["CLUSTER", "MEET", "127.0.0.1", &node.port.to_string()]);
    }
    let count = format!("cluster_known_nodes:{}\r", nodes.len());
    wait_until("all nodes know each other", || {
        nodes.iter().all(|node| {
            let info = node.text(&["CLUSTER", "INFO"]);
            info.contains("cluster_state:ok") && info.contains(&count)
        })
    });
    for (replica, primary) in nodes.iter().skip(3).zip(&nodes) {
        let id = primary.text(&["CLUSTER", "MYID"]);
        replica.command(&["CLUSTER", "REPLICATE", &id]);
    }
    wait_until("replicas are in sync", || {
        nodes.iter().skip(3).all(|node| {
            node.text(&["INFO", "replication"])
                .contains("master_link_status:up")
        })
    });
    nodes
}

pub fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !holds() {
        assert!(Instant::now() < deadline, "waited 20 s in vain until {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}
