//! Reaching store nodes through the API server, for an operator that runs outside the cluster.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;

use foreshard_api::PORT;
use foreshard_store::dial::{Dial, Direct, Stream};
use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, Client};

use crate::args::Transport;
use crate::cache::PodPlaces;

/// Dials as the command line says.
pub(crate) enum Dialer {
    /// Straight.
    Direct(Direct),
    /// Through the API server.
    PortForward { client: Client, places: Arc<PodPlaces> },
}

impl Dialer {
    pub(crate) fn new(transport: Transport, client: Client, places: Arc<PodPlaces>) -> Self {
        match transport {
            Transport::Direct => Self::Direct(Direct::default()),
            Transport::PortForward => Self::PortForward { client, places },
        }
    }
}

impl Dial for Dialer {
    fn dial(&self, at: IpAddr) -> BoxFuture<'_, io::Result<Box<dyn Stream>>> {
        match self {
            Self::Direct(direct) => direct.dial(at),
            Self::PortForward { client, places } => Box::pin(async move {
                let (namespace, pod) = places
                    .at(at)
                    .ok_or_else(|| io::Error::other(format!("no pod of ours has the address {at}")))?;
                let pods: Api<Pod> = Api::namespaced(client.clone(), &namespace);
                let mut forward = pods.portforward(&pod, &[PORT]).await.map_err(io::Error::other)?;
                let stream = forward
                    .take_stream(PORT)
                    .ok_or_else(|| io::Error::other("the port-forward has no stream"))?;
                Ok(Box::new(stream) as Box<dyn Stream>)
            }),
        }
    }
}
