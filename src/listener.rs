//! A TCP listener for clients that have not authenticated yet.
//!
//! At the limit of its slots, it still accepts a new connection, and closes another one. See
//! [`slots`].

mod slots;

use arc_swap::ArcSwapOption;
use rustls::ServerConfig;
use slots::ConnectionSlots;
use socket2::{Domain, Socket, Type};
use std::{
    io::{self, ErrorKind},
    net::{Ipv4Addr, Ipv6Addr, SocketAddr},
    sync::Arc,
    time::Duration,
};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::Semaphore,
    time::sleep,
};

pub use slots::{ConnectionSlot, TrustedAddress};

/// Maximum number of connections that the kernel completes before they are accepted, limited by
/// `net.core.somaxconn`. If the queue is full, the kernel drops the SYN of the API server, which
/// repeats it after 1 s.
const BACKLOG: i32 = 4096;
/// Pause after an error that concerns the listener and not one connection, such as too few file
/// descriptors.
const PAUSE: Duration = Duration::from_millis(50);

/// The current TLS configuration; none until a certificate is loaded. New connections use a new
/// certificate at once.
pub type Certificate = Arc<ArcSwapOption<ServerConfig>>;

/// A TCP listener that limits the number of connections with a [`ConnectionSlot`]. The webhook
/// server releases the slot of a connection once its client has authenticated.
pub struct Listener {
    tcp: TcpListener,
    slots: Arc<ConnectionSlots>,
    /// Permits for sockets: one for each connection with a slot, and as many for evicted
    /// connections that are still being closed. So sockets and memory are bounded even if closing
    /// is slower than accepting.
    sockets: Arc<Semaphore>,
}

impl Listener {
    /// Creates a listener with `unauthenticated` slots, at least one. A connection from a trusted
    /// address keeps its slot for at least `min_time`, and new connections wait meanwhile.
    pub fn new(tcp: TcpListener, unauthenticated: usize, min_time: Duration) -> Self {
        let unauthenticated = unauthenticated.max(1);
        Self {
            tcp,
            slots: Arc::new(ConnectionSlots::new(unauthenticated, min_time)),
            sockets: Arc::new(Semaphore::new(2 * unauthenticated)),
        }
    }

    /// Accepts the next connection, and gives it a slot: if all are taken, an older connection is
    /// evicted, one from a trusted address only after its minimum time. Of errors before that, the
    /// first is logged.
    pub async fn accept(&self) -> (TcpStream, ConnectionSlot) {
        let mut fails = false;
        loop {
            // The semaphore is never closed, so acquiring a permit cannot fail.
            let socket = self.sockets.clone().acquire_owned().await.ok();
            match self.tcp.accept().await {
                Ok((tcp, peer)) => {
                    self.slots.wait_for_slot(peer.ip()).await;
                    return (tcp, self.slots.acquire(peer.ip(), socket));
                }
                // The client has closed its connection already, or a signal interrupted the call.
                Err(error) if is_about_one(&error) => {}
                Err(error) => {
                    if !std::mem::replace(&mut fails, true) {
                        tracing::warn!(%error, "cannot accept connections");
                    }
                    sleep(PAUSE).await;
                }
            }
        }
    }
}

/// Listens on `address`, with a long queue for connections that are not accepted yet. The address
/// `[::]` also accepts IPv4, and stands for `0.0.0.0` on a host without IPv6.
///
/// # Errors
/// When the address cannot be bound, for example because it is in use.
pub fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    match bind_exactly(address) {
        Err(error)
            if address.ip() == Ipv6Addr::UNSPECIFIED && error.kind() != ErrorKind::AddrInUse =>
        {
            bind_exactly((Ipv4Addr::UNSPECIFIED, address.port()).into())
        }
        bound => bound,
    }
}

fn bind_exactly(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
    if address.is_ipv6() {
        // A system may have the opposite default.
        socket.set_only_v6(false)?;
    }
    // With SO_REUSEADDR, remaining connections of a previous process do not prevent the use of the
    // port.
    #[cfg(unix)]
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    TcpListener::from_std(socket.into())
}

fn is_about_one(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::ConnectionAborted | ErrorKind::ConnectionReset | ErrorKind::Interrupted
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_unspecified_address_accepts_both_families() {
        let listener = bind("[::]:0".parse().expect("an address")).expect("listens");
        let port = listener.local_addr().expect("an address").port();
        for loopback in ["127.0.0.1", "::1"] {
            // A host may have no IPv6.
            if TcpListener::bind((loopback, 0)).await.is_ok() {
                let connected = TcpStream::connect((loopback, port)).await;
                assert!(connected.is_ok(), "{loopback}: {connected:?}");
            }
        }
        let taken = bind(SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), port));
        let error = taken.expect_err("the port is in use");
        assert_eq!(error.kind(), ErrorKind::AddrInUse);
    }
}
