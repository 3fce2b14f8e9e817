//! One node: a connection that many workers share and that is opened again when it is lost.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use redis::aio::{ConnectionLike as _, MultiplexedConnection};
use redis::{
    AsyncConnectionConfig, ConnectionAddr, ConnectionInfo, IntoConnectionInfo as _, Pipeline, Value,
};
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout_at};

use crate::config::Access;
use crate::errors::OpError;
use crate::topology::split_address;

/// How a node is reached: address and credentials. TLS belongs here: `ConnectionAddr::TcpTls` with
/// the certificates of a future `Access::tls`; every connection of the tool is made from this.
pub(crate) fn connection_info(access: &Access, address: &str) -> Result<ConnectionInfo, OpError> {
    let (host, port) = split_address(address).ok_or(OpError::NoNode)?;
    let info = ConnectionAddr::Tcp(host.to_owned(), port).into_connection_info()?;
    let mut settings = info.redis_settings().clone();
    if let Some(user) = &access.user {
        settings = settings.set_username(user);
    }
    if let Some(password) = &access.password {
        settings = settings.set_password(&password.0);
    }
    Ok(info.set_redis_settings(settings))
}

/// A node and the connection to it.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) address: String,
    client: redis::Client,
    timeout: Duration,
    opened: AtomicU64,
    current: Mutex<Option<Held>>,
}

struct Held {
    number: u64,
    connection: MultiplexedConnection,
}

impl std::fmt::Debug for Held {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "connection {}", self.number)
    }
}

impl Node {
    pub(crate) fn new(access: &Access, address: &str) -> Result<Self, OpError> {
        Ok(Self {
            address: address.to_owned(),
            client: redis::Client::open(connection_info(access, address)?)?,
            timeout: access.timeout,
            opened: AtomicU64::new(0),
            current: Mutex::new(None),
        })
    }

    /// Sends commands together and returns their answers, errors of the server among them.
    pub(crate) async fn send(
        &self,
        commands: &Pipeline,
        count: usize,
        deadline: Instant,
    ) -> Result<Vec<Value>, OpError> {
        let mut used = None;
        let exchange = async {
            let (number, mut connection) = self.connection().await?;
            used = Some(number);
            connection.req_packed_commands(commands, 0, count).await
        };
        let result = match timeout_at(deadline, exchange).await {
            Ok(result) => result.map_err(OpError::from),
            Err(_) => Err(OpError::Timeout),
        };
        // After a time-out too: the address may have moved to another machine, and then nothing
        // would ever come back on this connection.
        if result.is_err()
            && let Some(number) = used
        {
            self.discard(number).await;
        }
        result
    }

    /// Gives up the current connection; the next operation opens another one.
    pub(crate) async fn reconnect(&self) {
        *self.current.lock().await = None;
    }

    async fn discard(&self, number: u64) {
        let mut current = self.current.lock().await;
        if current.as_ref().is_some_and(|held| held.number == number) {
            *current = None;
        }
    }

    async fn connection(&self) -> Result<(u64, MultiplexedConnection), redis::RedisError> {
        let mut current = self.current.lock().await;
        if let Some(held) = current.as_ref() {
            return Ok((held.number, held.connection.clone()));
        }
        // The deadline of the operation is what ends a wait; these only tidy up behind it.
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(self.timeout))
            .set_response_timeout(Some(self.timeout * 2));
        let connection = self
            .client
            .get_multiplexed_async_connection_with_config(&config)
            .await?;
        let number = self.opened.fetch_add(1, Ordering::Relaxed);
        *current = Some(Held {
            number,
            connection: connection.clone(),
        });
        Ok((number, connection))
    }
}
