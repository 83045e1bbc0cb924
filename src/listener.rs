//! A TCP listener that takes no more than so many connections at once.

use std::{io, net::SocketAddr, sync::Arc, time::Duration};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore},
};

/// See the module. Further connections wait in the kernel's backlog.
pub struct Listener {
    tcp: TcpListener,
    permits: Arc<Semaphore>,
}

impl Listener {
    /// Takes at most `connections` at once.
    pub fn new(tcp: TcpListener, connections: usize) -> Self {
        let permits = Arc::new(Semaphore::new(connections));
        Self { tcp, permits }
    }

    /// Listens there.
    ///
    /// # Errors
    /// When the address cannot be had.
    pub async fn bind(address: SocketAddr, connections: usize) -> io::Result<Self> {
        Ok(Self::new(TcpListener::bind(address).await?, connections))
    }

    /// The next connection, and the permit to keep for as long as it lasts.
    pub async fn accept(&self) -> (TcpStream, Option<OwnedSemaphorePermit>) {
        // The semaphore is never closed.
        let permit = self.permits.clone().acquire_owned().await.ok();
        loop {
            match self.tcp.accept().await {
                Ok((tcp, _)) => return (tcp, permit),
                Err(error) => {
                    // Out of file descriptors, most likely: a moment, or this would be a busy loop.
                    tracing::warn!(%error, "accept");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            }
        }
    }
}
