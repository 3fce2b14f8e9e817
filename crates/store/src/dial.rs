//! How a connection to a node is opened: straight to its address, or by whatever way the program is given.

use std::io;
use std::net::{IpAddr, SocketAddr};

use foreshard_api::PORT;
use futures::future::BoxFuture;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

/// A byte stream to a node.
pub trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}
impl<S: AsyncRead + AsyncWrite + Unpin + Send> Stream for S {}

/// Opens connections to nodes.
pub trait Dial: Send + Sync + 'static {
    /// A new connection to the store port at this address.
    fn dial(&self, at: IpAddr) -> BoxFuture<'_, io::Result<Box<dyn Stream>>>;
}

/// Dials the address itself.
#[derive(Clone, Copy, Debug)]
pub struct Direct {
    /// The port to dial.
    pub port: u16,
}

impl Default for Direct {
    fn default() -> Self {
        Self { port: PORT }
    }
}

impl Dial for Direct {
    fn dial(&self, at: IpAddr) -> BoxFuture<'_, io::Result<Box<dyn Stream>>> {
        let address = SocketAddr::new(at, self.port);
        Box::pin(async move {
            let stream = TcpStream::connect(address).await?;
            stream.set_nodelay(true)?;
            Ok(Box::new(stream) as Box<dyn Stream>)
        })
    }
}
