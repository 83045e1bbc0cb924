//! A TCP listener for clients that have not authenticated yet.
//!
//! It never stops accepting: when its places are full, an older connection is closed. See
//! [`places`].

mod places;

use arc_swap::ArcSwapOption;
use places::Places;
use rustls::ServerConfig;
use std::{
    io::{self, ErrorKind},
    net::SocketAddr,
    sync::Arc,
    time::Duration,
};
use tokio::{
    net::{TcpListener, TcpSocket, TcpStream},
    sync::Semaphore,
    time::sleep,
};

pub use places::Place;

/// Connections that the kernel completes ahead of `accept`, as far as `net.core.somaxconn`
/// allows. Behind a full queue the SYN of the API server is dropped, and repeated after 1 s.
const BACKLOG: u32 = 4096;
/// After an error that is not about one connection, such as too few file descriptors.
const PAUSE: Duration = Duration::from_millis(50);

/// The present certificate; nothing until there is one. New connections see a new one at once.
pub type Certificate = Arc<ArcSwapOption<ServerConfig>>;

/// A TCP listener with a limited number of places.
pub struct Listener {
    tcp: TcpListener,
    places: Arc<Places>,
    /// One for each connection with a place and as many for those that were evicted and are still
    /// being closed: sockets and memory are bounded even if closing is slower than accepting.
    sockets: Arc<Semaphore>,
}

impl Listener {
    /// Gives places to at most `strangers` connections at once, at least one.
    pub fn new(tcp: TcpListener, strangers: usize) -> Self {
        let strangers = strangers.max(1);
        Self {
            tcp,
            places: Arc::new(Places::new(strangers)),
            sockets: Arc::new(Semaphore::new(2 * strangers)),
        }
    }

    /// The next connection and its place.
    pub async fn accept(&self) -> (TcpStream, Place) {
        loop {
            // The semaphore is never closed.
            let socket = self.sockets.clone().acquire_owned().await.ok();
            match self.tcp.accept().await {
                Ok((tcp, peer)) => return (tcp, self.places.admit(peer.ip(), socket)),
                // The client has closed its connection already.
                Err(error) if is_about_one(&error) => {}
                Err(error) => {
                    tracing::warn!(%error, "cannot accept connections");
                    sleep(PAUSE).await;
                }
            }
        }
    }
}

/// Listens on `address` with a long queue of connections that are not accepted yet.
///
/// # Errors
/// When the address is in use or not one of this machine.
pub fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = match address {
        SocketAddr::V4(_) => TcpSocket::new_v4(),
        SocketAddr::V6(_) => TcpSocket::new_v6(),
    }?;
    // Connections of the process before this one do not keep the port.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

fn is_about_one(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::ConnectionAborted | ErrorKind::ConnectionReset | ErrorKind::Interrupted
    )
}
