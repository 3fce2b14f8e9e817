//! A small cluster client made for measuring: it follows MOVED and ASK and counts them, and shows
//! every other error at once.
//!
//! The `redis` crate's own cluster client hides what happens: it retries inside, waits at least
//! 1.28 s before some retries, stops *all* shards while it reads the slot map again, and does not
//! leave a node that hangs. Measured with redis 1.8: a primary killed and its replica promoted at once
//! is a gap of 66-90 ms here and of 1.1 s there; a primary that hangs, of 4.0 s here and 6.0 s there.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

use crate::config::Access;
use crate::errors::OpError;
use crate::node::Node;
use crate::operation::{Answer, Operation};
use crate::topology::{Topology, address, split_address};

/// One redirect is normal when a slot has moved, two when it moves on at once. More is a loop.
const MAX_REDIRECTS: u32 = 5;
/// How long a node may take to tell the slot map.
const MAP_TIMEOUT: Duration = Duration::from_millis(500);
/// At least so long between two readings of the map, however many errors ask for one.
const MAP_PAUSE: Duration = Duration::from_millis(20);

/// How many redirects were followed.
#[derive(Debug, Default)]
pub(crate) struct Redirects {
    pub(crate) moved: AtomicU64,
    pub(crate) ask: AtomicU64,
}

/// A connection to every node, and the slot map.
#[derive(Debug)]
pub(crate) struct DirectCluster {
    inner: Arc<Inner>,
    _refresher: AbortOnDropHandle<()>,
}

#[derive(Debug)]
struct Inner {
    access: Access,
    seeds: Vec<String>,
    nodes: RwLock<HashMap<String, Arc<Node>>>,
    map: RwLock<Vec<Option<Arc<Node>>>>,
    refresh: Notify,
    redirects: Arc<Redirects>,
}

impl DirectCluster {
    pub(crate) async fn connect(
        access: &Access,
        seeds: &[String],
        redirects: Arc<Redirects>,
    ) -> Result<Self, OpError> {
        let inner = Arc::new(Inner {
            access: access.clone(),
            seeds: seeds.to_vec(),
            nodes: RwLock::default(),
            map: RwLock::default(),
            refresh: Notify::new(),
            redirects,
        });
        inner.read_map().await?;
        let background = Arc::clone(&inner);
        let refresher = tokio::spawn(async move {
            loop {
                background.refresh.notified().await;
                // A failure is not lost: the next operation fails too and asks again.
                let _ = background.read_map().await;
                tokio::time::sleep(MAP_PAUSE).await;
            }
        });
        Ok(Self {
            inner,
            _refresher: AbortOnDropHandle::new(refresher),
        })
    }

    /// Runs an operation on the owner of its slot.
    pub(crate) async fn run(
        &self,
        slot: u16,
        operation: &Operation,
        deadline: Instant,
    ) -> Result<Answer, OpError> {
        let result = self.inner.follow(slot, operation, deadline).await;
        if result.is_err() {
            self.inner.refresh.notify_one();
        }
        result
    }

    /// The slot map, read anew.
    pub(crate) async fn topology(&self) -> Result<Topology, OpError> {
        self.inner.read_map().await
    }
}

impl Inner {
    async fn follow(&self, slot: u16, operation: &Operation, deadline: Instant) -> Result<Answer, OpError> {
        let mut node = self.owner(slot).ok_or(OpError::NoNode)?;
        let mut asking = false;
        let mut redirects = 0;
        loop {
            let (commands, count) = if asking {
                operation.commands_asking()
            } else {
                operation.commands()
            };
            let mut answers = node.send(&commands, count, deadline).await?;
            if asking && !answers.is_empty() {
                answers.remove(0);
            }
            let error = match operation.answer(answers) {
                Err(OpError::Store(error)) if redirects < MAX_REDIRECTS => error,
                result => return result,
            };
            let Some((target, _)) = error.redirect_node() else {
                return Err(error.into());
            };
            redirects += 1;
            asking = error.code() == Some("ASK");
            let target = self.node(&complete(target, &node.address))?;
            if asking {
                self.redirects.ask.fetch_add(1, Ordering::Relaxed);
            } else {
                self.redirects.moved.fetch_add(1, Ordering::Relaxed);
                self.set_owner(slot, &target);
                self.refresh.notify_one();
            }
            node = target;
        }
    }

    /// Asks all known nodes at once and believes the first that answers. If it is behind the
    /// others, its error is a MOVED, and that is followed.
    async fn read_map(&self) -> Result<Topology, OpError> {
        let mut asked = JoinSet::new();
        for node in self.all_nodes()? {
            asked.spawn(async move { ask_map(&node).await });
        }
        let mut last = OpError::NoNode;
        while let Some(answer) = asked.join_next().await {
            match answer {
                Ok(Ok(topology)) => {
                    self.install(&topology)?;
                    return Ok(topology);
                }
                Ok(Err(error)) => last = error,
                Err(_) => {}
            }
        }
        Err(last)
    }

    fn install(&self, topology: &Topology) -> Result<(), OpError> {
        let owners: Result<Vec<_>, _> = topology
            .shards
            .iter()
            .map(|shard| self.node(&shard.primary))
            .collect();
        let owners = owners?;
        let map = topology
            .owners()
            .into_iter()
            .map(|owner| owners.get(usize::from(owner)).cloned());
        *self.map.write().unwrap_or_else(PoisonError::into_inner) = map.collect();
        Ok(())
    }

    fn owner(&self, slot: u16) -> Option<Arc<Node>> {
        self.map
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .get(usize::from(slot))
            .cloned()
            .flatten()
    }

    fn set_owner(&self, slot: u16, node: &Arc<Node>) {
        let mut map = self.map.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(owner) = map.get_mut(usize::from(slot)) {
            *owner = Some(Arc::clone(node));
        }
    }

    fn node(&self, address: &str) -> Result<Arc<Node>, OpError> {
        let mut nodes = self.nodes.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(node) = nodes.get(address) {
            return Ok(Arc::clone(node));
        }
        let node = Arc::new(Node::new(&self.access, address)?);
        nodes.insert(address.to_owned(), Arc::clone(&node));
        Ok(node)
    }

    fn all_nodes(&self) -> Result<Vec<Arc<Node>>, OpError> {
        for seed in &self.seeds {
            self.node(seed)?;
        }
        Ok(self
            .nodes
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .values()
            .cloned()
            .collect())
    }
}

async fn ask_map(node: &Node) -> Result<Topology, OpError> {
    let mut commands = redis::pipe();
    commands.cmd("CLUSTER").arg("SLOTS");
    let mut answers = node.send(&commands, 1, Instant::now() + MAP_TIMEOUT).await?;
    match answers.pop() {
        Some(redis::Value::ServerError(error)) => Err(redis::RedisError::from(error).into()),
        Some(answer) => {
            let host = split_address(&node.address).map_or("", |(host, _)| host);
            Topology::parse(&answer, host).ok_or(OpError::NoNode)
        }
        None => Err(OpError::NoNode),
    }
}

/// A redirect without a host means the host that sent it.
fn complete(target: &str, from: &str) -> String {
    match (split_address(target), split_address(from)) {
        (Some(("", port)), Some((host, _))) => address(host, port),
        _ => target.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_redirect_without_a_host_stays_on_the_host() {
        assert_eq!(complete(":7002", "10.0.0.1:7001"), "10.0.0.1:7002");
        assert_eq!(complete(":7002", "[::1]:7001"), "[::1]:7002");
        assert_eq!(complete("10.0.0.2:7002", "10.0.0.1:7001"), "10.0.0.2:7002");
    }
}
