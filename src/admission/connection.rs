//! One connection, from its acceptance to its end.

use super::{
    gate::Gate, limits::Limits, metered::Metered, seats::Seats, secret_paths::SecretPaths,
    visitor::Visitor,
};
use crate::{
    listener::Place,
    telemetry::{LogLimiter, Metrics},
};
use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use rustls::{ServerConfig, server::Acceptor};
use std::{
    io,
    net::SocketAddr,
    pin::pin,
    sync::{Arc, atomic::AtomicBool},
};
use tokio::{
    net::TcpStream,
    time::{Instant, sleep_until},
};
use tokio_rustls::LazyConfigAcceptor;
use tokio_util::sync::CancellationToken;

/// The longest head of a request that hyper buffers; also the size of the parts in which it reads
/// bodies. The head of the API server has less than 1 KiB.
const BUFFER: usize = 16 * 1024;

/// What all connections share.
#[derive(Clone)]
pub(super) struct Shared {
    pub(super) app: Router,
    pub(super) paths: SecretPaths,
    pub(super) limits: Limits,
    pub(super) metrics: Arc<Metrics>,
    pub(super) seats: Arc<Seats>,
    pub(super) closing: Arc<AtomicBool>,
    /// Connections end after the request under way.
    pub(super) drain: CancellationToken,
    /// Lines about clients without the right certificate.
    pub(super) refused: Arc<LogLimiter>,
}

impl Shared {
    /// Serves the connection until it ends. It is cut if it loses its place or its time is over
    /// before a request has shown a secret path.
    pub(super) async fn connection(self, tcp: TcpStream, place: Place, tls: Arc<ServerConfig>) {
        let deadline = Instant::now() + self.limits.stranger_time;
        let (metrics, evicted) = (self.metrics.clone(), place.evicted());
        let visitor = Visitor::new(place, self.seats.clone(), metrics.clone());
        let visitor = Arc::new(visitor);
        let mut served = pin!(self.serve(tcp, tls, visitor.clone()));
        let (ended, cause) = tokio::select! {
            biased;
            () = served.as_mut() => (true, "Disconnected"),
            () = visitor.authenticated() => (false, ""),
            () = evicted => (false, "Evicted"),
            () = sleep_until(deadline) => (false, "TimedOut"),
        };
        match visitor.is_authenticated() {
            true if ended => {}
            true => served.await,
            false => metrics
                .admission
                .stranger_left(visitor.refusal().unwrap_or(cause)),
        }
    }

    async fn serve(self, tcp: TcpStream, tls: Arc<ServerConfig>, visitor: Arc<Visitor>) {
        let peer = tcp.peer_addr().ok();
        let _ = tcp.set_nodelay(true);
        let bytes = self.limits.stranger_bytes;
        let tcp = Metered::new(tcp, bytes, visitor.clone());
        let Ok(hello) = LazyConfigAcceptor::new(Acceptor::default(), tcp).await else {
            return;
        };
        visitor.advance();
        let tls = match hello.into_stream(tls).await {
            Ok(tls) => tls,
            Err(error) => return report_client(&error, peer, &self.refused),
        };
        let gate = Gate {
            app: self.app,
            paths: self.paths,
            visitor: visitor.clone(),
            closing: self.closing,
        };
        let mut builder = http1::Builder::new();
        // The header timeout also runs between requests: it is the idle timeout. Without a timer
        // it would do nothing at all.
        let timer = builder.timer(TokioTimer::new());
        let builder = timer
            .header_read_timeout(self.limits.idle)
            .max_buf_size(BUFFER);
        let mut connection = pin!(builder.serve_connection(TokioIo::new(tls), gate));
        tokio::select! {
            // However it ended, its client can do nothing about it here.
            _ = connection.as_mut() => return,
            () = visitor.closing() => {}
            () = self.drain.cancelled() => {}
        }
        connection.as_mut().graceful_shutdown();
        let _ = connection.await;
    }
}

/// Handshakes fail for many reasons that are the client's. A missing or wrong certificate is one
/// that the administrator has to know of.
fn report_client(error: &io::Error, peer: Option<SocketAddr>, refused: &LogLimiter) {
    let error = error.get_ref().and_then(|error| error.downcast_ref());
    if let Some(
        error @ (rustls::Error::NoCertificatesPresented | rustls::Error::InvalidCertificate(_)),
    ) = error
        && let Some(suppressed) = refused.check()
    {
        let peer = peer.map(tracing::field::display);
        tracing::warn!(peer, %error, suppressed, "a client was refused: see --client-ca-file");
    }
}
