//! A TCP listener for clients that have not authenticated yet.
//!
//! At the limit of its places, it still accepts a new connection, and closes another one. See
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

/// Maximum number of connections that the kernel completes before they are accepted, limited by
/// `net.core.somaxconn`. If the queue is full, the kernel drops the SYN of the API server, which
/// repeats it after 1 s.
const BACKLOG: u32 = 4096;
/// Pause after an error that concerns the listener and not one connection, such as too few file
/// descriptors.
const PAUSE: Duration = Duration::from_millis(50);

/// The current TLS configuration; none until a certificate is loaded. New connections use a new
/// certificate at once.
pub type Certificate = Arc<ArcSwapOption<ServerConfig>>;

/// A TCP listener that limits the number of connections with a [`Place`]. The webhook server
/// releases the place of a connection once its client has authenticated.
pub struct Listener {
    tcp: TcpListener,
    places: Arc<Places>,
    /// Permits for sockets: one for each connection with a place, and as many for evicted
    /// connections that are still being closed. So sockets and memory are bounded even if closing
    /// is slower than accepting.
    sockets: Arc<Semaphore>,
}

impl Listener {
    /// Creates a listener with places for `strangers` unauthenticated connections, at least one.
    pub fn new(tcp: TcpListener, strangers: usize) -> Self {
        let strangers = strangers.max(1);
        Self {
            tcp,
            places: Arc::new(Places::new(strangers)),
            sockets: Arc::new(Semaphore::new(2 * strangers)),
        }
    }

    /// Accepts the next connection, and gives it a place: if all are taken, an older connection is
    /// evicted.
    pub async fn accept(&self) -> (TcpStream, Place) {
        loop {
            // The semaphore is never closed, so acquiring a permit cannot fail.
            let socket = self.sockets.clone().acquire_owned().await.ok();
            match self.tcp.accept().await {
                Ok((tcp, peer)) => return (tcp, self.places.admit(peer.ip(), socket)),
                // The client has closed its connection already, or a signal interrupted the call.
                Err(error) if is_about_one(&error) => {}
                Err(error) => {
                    tracing::warn!(%error, "cannot accept connections");
                    sleep(PAUSE).await;
                }
            }
        }
    }
}

/// Listens on `address`, with a long queue for connections that are not accepted yet.
///
/// # Errors
/// When the address cannot be bound, for example because it is in use.
pub fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = match address {
        SocketAddr::V4(_) => TcpSocket::new_v4(),
        SocketAddr::V6(_) => TcpSocket::new_v6(),
    }?;
    // With SO_REUSEADDR, remaining connections of a previous process do not prevent the use of the
    // port.
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
