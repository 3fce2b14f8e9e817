//! [`NodeAdmin`] over the wire, with one held connection per node.

use std::collections::HashMap;
use std::io;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use foreshard_api::PORT;
use foreshard_plan::{Action, NodeId, NodeView};
use redis::aio::MultiplexedConnection;
use redis::{
    AsyncConnectionConfig, Cmd, ErrorKind, FromRedisValue, Pipeline, RedisConnectionInfo, RedisError,
    ServerErrorKind, Value,
};
use tokio::time::{Instant, sleep, timeout};
use tracing::debug;

use crate::dial::Dial;
use crate::{NodeAdmin, StoreError, parse};

/// How long a node may take.
#[derive(Clone, Copy, Debug)]
pub struct Timeouts {
    /// To accept a connection and be greeted.
    pub connect: Duration,
    /// To answer a command.
    pub command: Duration,
    /// For a promotion to be seen after it was accepted.
    pub promotion: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(1),
            command: Duration::from_millis(1500),
            promotion: Duration::from_millis(2500),
        }
    }
}

/// Talks to nodes with redis-rs.
pub struct RedisAdmin<D> {
    dial: D,
    timeouts: Timeouts,
    connections: Mutex<HashMap<IpAddr, MultiplexedConnection>>,
}

impl<D: Dial> RedisAdmin<D> {
    /// An admin that opens connections this way.
    pub fn new(dial: D, timeouts: Timeouts) -> Self {
        Self {
            dial,
            timeouts,
            connections: Mutex::default(),
        }
    }

    async fn connection(&self, at: IpAddr) -> Result<MultiplexedConnection, StoreError> {
        if let Some(held) = self.held(|held| held.get(&at).cloned()) {
            return Ok(held);
        }
        let limit = self.timeouts.connect;
        let connect = async {
            let stream = self.dial.dial(at).await.map_err(|error| from_io(&error))?;
            let config = AsyncConnectionConfig::new().set_response_timeout(Some(self.timeouts.command));
            let info = RedisConnectionInfo::default().set_skip_set_lib_name();
            let (connection, driver) = MultiplexedConnection::new_with_config(&info, stream, config)
                .await
                .map_err(|error| from_redis("HELLO", &error, limit))?;
            tokio::spawn(driver);
            Ok(connection)
        };
        let connection = timeout(limit, connect)
            .await
            .map_err(|_| StoreError::TimedOut(limit.as_millis()))??;
        self.held(|held| held.insert(at, connection.clone()));
        Ok(connection)
    }

    fn held<T>(&self, work: impl FnOnce(&mut HashMap<IpAddr, MultiplexedConnection>) -> T) -> T {
        work(&mut self.connections.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Drops the connection when the error means that it is of no use.
    fn judge<T>(&self, at: IpAddr, result: Result<T, StoreError>) -> Result<T, StoreError> {
        if let Err(error) = &result
            && error.breaks_connection()
        {
            debug!(node = %at, %error, "Dropped the connection");
            self.held(|held| held.remove(&at));
        }
        result
    }

    async fn ask<T: FromRedisValue>(
        &self,
        at: IpAddr,
        what: &'static str,
        command: &Cmd,
    ) -> Result<T, StoreError> {
        let result = async {
            let mut connection = self.connection(at).await?;
            command
                .query_async(&mut connection)
                .await
                .map_err(|error| from_redis(what, &error, self.timeouts.command))
        };
        self.judge(at, result.await)
    }

    async fn look(&self, at: IpAddr) -> Result<NodeView, StoreError> {
        let mut pipeline = Pipeline::new();
        pipeline.cmd("CLUSTER").arg("NODES");
        pipeline
            .cmd("INFO")
            .arg(&["server", "replication", "persistence"]);
        pipeline.cmd("CLUSTER").arg("INFO");
        pipeline.cmd("DBSIZE");
        let limit = self.timeouts.command;
        let mut connection = self.connection(at).await?;
        let answers = connection.send_packed_commands(&pipeline, 0, 4).await;
        let mut answers = answers
            .map_err(|error| from_redis("CLUSTER NODES", &error, limit))?
            .into_iter();
        // Each answer is judged by itself: one refused command must not hide what the others say.
        let mut next = |what: &'static str| {
            let answer = answers.next().unwrap_or(Value::Nil);
            answer
                .extract_error()
                .map_err(|error| from_redis(what, &error, limit))
        };
        let nodes: String = typed("CLUSTER NODES", next("CLUSTER NODES")?)?;
        let info: String = typed("INFO", next("INFO")?)?;
        let cluster_info: String = typed("CLUSTER INFO", next("CLUSTER INFO")?)?;
        let keys: u64 = typed("DBSIZE", next("DBSIZE")?)?;
        parse::node_view(&nodes, &info, &cluster_info, keys)
    }

    /// The node's view, if it is the one that is meant.
    async fn expect(&self, at: IpAddr, id: &NodeId) -> Result<NodeView, StoreError> {
        let view = self.view(at).await?;
        if view.id == *id {
            Ok(view)
        } else {
            Err(StoreError::WrongNode {
                expected: id.clone(),
                found: view.id,
            })
        }
    }

    /// Sends a promotion once and watches for it: a second one while the votes are being counted starts over.
    async fn promote(&self, at: IpAddr, id: &NodeId) -> Result<(), StoreError> {
        let mut failover = redis::cmd("CLUSTER");
        let asked = self
            .ask::<()>(at, "CLUSTER FAILOVER", failover.arg("FAILOVER").arg("FORCE"))
            .await;
        // The engine's own election may have been faster.
        unless_done(asked, "to a replica")?;
        let until = Instant::now() + self.timeouts.promotion;
        while Instant::now() < until {
            if self.expect(at, id).await?.is_primary() {
                return Ok(());
            }
            sleep(Duration::from_millis(10)).await;
        }
        Err(StoreError::NoEffect("CLUSTER FAILOVER FORCE".to_owned()))
    }
}

impl<D: Dial> NodeAdmin for RedisAdmin<D> {
    async fn view(&self, at: IpAddr) -> Result<NodeView, StoreError> {
        let first = self.look(at).await;
        // A held connection that turns out to be dead says nothing about the node: ask once more on a fresh one.
        let retry = matches!(first, Err(StoreError::Broken(_)));
        let result = self.judge(at, first);
        if retry {
            self.judge(at, self.look(at).await)
        } else {
            result
        }
    }

    async fn act(&self, at: IpAddr, id: &NodeId, action: &Action) -> Result<(), StoreError> {
        let view = self.expect(at, id).await?;
        let mut cluster = redis::cmd("CLUSTER");
        match action {
            Action::SetConfigEpoch(_) if !view.is_blank() => Ok(()),
            Action::SetConfigEpoch(epoch) => {
                self.ask(
                    at,
                    "CLUSTER SET-CONFIG-EPOCH",
                    cluster.arg("SET-CONFIG-EPOCH").arg(epoch),
                )
                .await
            }
            Action::Meet { ip, id: other } => {
                // An address may have passed on to a node of another cluster, and a meeting joins the two for good.
                self.expect(*ip, other).await?;
                cluster.arg("MEET").arg(ip.to_string()).arg(PORT);
                self.ask(at, "CLUSTER MEET", &cluster).await
            }
            Action::AddSlots(slots) => {
                let missing = slots.minus(&view.own_slots());
                if missing.is_empty() {
                    return Ok(());
                }
                // The server refuses the whole command when it knows an owner of any of them.
                cluster.arg("ADDSLOTSRANGE");
                for &(first, last) in missing.ranges() {
                    cluster.arg(first).arg(last);
                }
                self.ask(at, "CLUSTER ADDSLOTSRANGE", &cluster).await
            }
            Action::Replicate(primary) if view.primary() == Some(primary) => Ok(()),
            Action::Replicate(primary) => {
                self.ask(
                    at,
                    "CLUSTER REPLICATE",
                    cluster.arg("REPLICATE").arg(primary.as_str()),
                )
                .await
            }
            Action::FailoverForce if view.is_primary() => Ok(()),
            Action::FailoverForce => self.promote(at, id).await,
            Action::Forget(dead) if view.peers.iter().all(|peer| peer.id != *dead) => Ok(()),
            Action::Forget(dead) => {
                let asked = self
                    .ask(at, "CLUSTER FORGET", cluster.arg("FORGET").arg(dead.as_str()))
                    .await;
                // Newer engines tell each other whom to forget.
                unless_done(asked, "Unknown node")
            }
            other => Err(StoreError::Rejected {
                command: other.to_string(),
                message: "not known to this version".into(),
            }),
        }
    }

    fn keep_only(&self, in_use: &dyn Fn(IpAddr) -> bool) {
        self.held(|held| held.retain(|at, _| in_use(*at)));
    }
}

/// A refusal with these words means that somebody was faster: what was asked for is already so.
fn unless_done(asked: Result<(), StoreError>, words: &str) -> Result<(), StoreError> {
    match asked {
        Err(StoreError::Rejected { message, .. }) if message.contains(words) => Ok(()),
        other => other,
    }
}

fn typed<T: FromRedisValue>(what: &'static str, value: Value) -> Result<T, StoreError> {
    T::from_redis_value(value).map_err(|error| StoreError::Garbled {
        what,
        detail: error.to_string(),
    })
}

fn from_io(error: &io::Error) -> StoreError {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => StoreError::Refused,
        _ => StoreError::Broken(error.to_string()),
    }
}

fn from_redis(command: &'static str, error: &RedisError, limit: Duration) -> StoreError {
    if error.is_timeout() {
        return StoreError::TimedOut(limit.as_millis());
    }
    if error.is_connection_refusal() {
        return StoreError::Refused;
    }
    match error.kind() {
        ErrorKind::Server(ServerErrorKind::BusyLoading) => StoreError::Loading,
        ErrorKind::AuthenticationFailed => StoreError::Credentials(error.to_string()),
        ErrorKind::Io => StoreError::Broken(error.to_string()),
        ErrorKind::Parse | ErrorKind::UnexpectedReturnType => StoreError::Garbled {
            what: command,
            detail: error.to_string(),
        },
        _ => {
            let (code, detail) = (
                error.code().unwrap_or_default(),
                error.detail().unwrap_or_default(),
            );
            if matches!(code, "NOAUTH" | "WRONGPASS" | "NOPERM") {
                return StoreError::Credentials(format!("{code} {detail}"));
            }
            let message = if detail.is_empty() {
                error.to_string()
            } else {
                format!("{code} {detail}").trim().to_owned()
            };
            StoreError::Rejected {
                command: command.to_owned(),
                message,
            }
        }
    }
}
