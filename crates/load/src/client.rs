//! The three ways to a store, behind one face.

use std::sync::Arc;
use std::time::Duration;

use redis::cluster::ClusterClientBuilder;
use redis::cluster_async::ClusterConnection;
use redis::cluster_routing::{Route, SingleNodeRoutingInfo, SlotAddr};
use tokio::time::{Instant, timeout_at};

use crate::cluster::{DirectCluster, Redirects};
use crate::config::{Access, ClientKind, Target};
use crate::errors::OpError;
use crate::node::{Node, connection_info};
use crate::operation::{Answer, Operation};
use crate::topology::Topology;

/// How often to try again while the first connection is being made.
const CONNECT_PAUSE: Duration = Duration::from_millis(100);

/// The library drops a connection only when *its* time-out fires, so it gets a little longer
/// before the operation is taken away from it. An answer that comes in this time counts as late.
const LIBRARY_GRACE: Duration = Duration::from_millis(100);

/// A client that workers share.
#[derive(Clone)]
pub(crate) struct Client {
    timeout: Duration,
    reconnect_on_readonly: bool,
    way: Way,
}

#[derive(Clone)]
enum Way {
    Primary(Arc<Node>),
    Direct(Arc<DirectCluster>),
    Library(Box<ClusterConnection>),
}

impl Client {
    /// Connects, trying again until the connect time-out has passed.
    pub(crate) async fn connect(access: &Access, redirects: &Arc<Redirects>) -> Result<Self, OpError> {
        let deadline = Instant::now() + access.connect_timeout;
        loop {
            let client = match Way::open(access, redirects).await {
                Ok(way) => Ok(Self {
                    timeout: access.timeout,
                    reconnect_on_readonly: access.reconnect_on_readonly,
                    way,
                }),
                // Waiting does not help against a wrong password.
                Err(error) if error.kind() == "noauth" => return Err(error),
                Err(error) => Err(error),
            };
            if client.is_ok() || Instant::now() >= deadline {
                return client;
            }
            tokio::time::sleep(CONNECT_PAUSE).await;
        }
    }

    /// Runs an operation; what comes after the time-out is an error, whatever it is.
    pub(crate) async fn run(&self, slot: u16, operation: &Operation) -> Result<Answer, OpError> {
        let deadline = Instant::now() + self.timeout;
        match &self.way {
            Way::Primary(node) => {
                let (commands, count) = operation.commands();
                let answers = node.send(&commands, count, deadline).await?;
                let result = operation.answer(answers);
                if self.reconnect_on_readonly
                    && result.as_ref().is_err_and(|error| error.kind() == "readonly")
                {
                    node.reconnect().await;
                }
                result
            }
            Way::Direct(cluster) => cluster.run(slot, operation, deadline).await,
            Way::Library(connection) => {
                let mut connection = connection.clone();
                let (commands, count) = operation.commands();
                let route = SingleNodeRoutingInfo::SpecificNode(Route::new(slot, SlotAddr::Master));
                let exchange = connection.route_pipeline(commands, 0, count, route);
                match timeout_at(deadline + LIBRARY_GRACE, exchange).await {
                    Ok(answers) if Instant::now() <= deadline => operation.answer(answers?),
                    _ => Err(OpError::Timeout),
                }
            }
        }
    }
}

impl Client {
    /// The slot map of the store now; one shard for a single primary.
    pub(crate) async fn topology(&self, access: &Access) -> Result<Topology, OpError> {
        match (&self.way, &access.target) {
            (Way::Direct(cluster), _) => cluster.topology().await,
            (_, Target::Primary(address)) => Ok(Topology::single(address)),
            (_, Target::Cluster(seeds)) => {
                DirectCluster::connect(access, seeds, Arc::default())
                    .await?
                    .topology()
                    .await
            }
        }
    }
}

impl Way {
    async fn open(access: &Access, redirects: &Arc<Redirects>) -> Result<Self, OpError> {
        match (&access.target, access.client) {
            (Target::Primary(address), _) => {
                let node = Node::new(access, address)?;
                let mut ping = redis::pipe();
                ping.cmd("PING");
                let answers = node.send(&ping, 1, Instant::now() + access.timeout).await?;
                if let Some(redis::Value::ServerError(error)) = answers.into_iter().next() {
                    return Err(redis::RedisError::from(error).into());
                }
                Ok(Self::Primary(Arc::new(node)))
            }
            (Target::Cluster(seeds), ClientKind::Direct) => {
                let cluster = DirectCluster::connect(access, seeds, Arc::clone(redirects)).await?;
                Ok(Self::Direct(Arc::new(cluster)))
            }
            (Target::Cluster(seeds), ClientKind::Library) => {
                let seeds: Result<Vec<_>, _> =
                    seeds.iter().map(|seed| connection_info(access, seed)).collect();
                let mut builder = ClusterClientBuilder::new(seeds?)
                    .connection_timeout(access.timeout)
                    .response_timeout(access.timeout)
                    .overall_response_timeout(None);
                if let Some(retries) = access.client_retries {
                    builder = builder.retries(retries);
                }
                Ok(Self::Library(Box::new(
                    builder.build()?.get_async_connection().await?,
                )))
            }
        }
    }
}
