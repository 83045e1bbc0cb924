//! Serves one connection of the webhook server, from its acceptance to its end.

use super::{
    authenticated_connections::AuthenticatedConnections, byte_limited::ByteLimited,
    client_state::ClientState, limits::Limits, path_authenticator::PathAuthenticator,
    secret_paths::SecretPaths,
};
use crate::{
    listener::ConnectionSlot,
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
    task::yield_now,
    time::{Instant, sleep_until},
};
use tokio_rustls::LazyConfigAcceptor;
use tokio_util::sync::CancellationToken;

/// Maximum size of a request head that hyper buffers; hyper also reads bodies in parts of this
/// size. The head of a request from the API server has less than 1 KiB.
const BUFFER: usize = 16 * 1024;

/// State that all connections of the webhook server share.
#[derive(Clone)]
pub(super) struct Shared {
    pub(super) app: Router,
    pub(super) paths: SecretPaths,
    pub(super) limits: Limits,
    pub(super) metrics: Arc<Metrics>,
    pub(super) authenticated_connections: Arc<AuthenticatedConnections>,
    pub(super) closing: Arc<AtomicBool>,
    /// Cancelled when the server stops: each connection closes after its current request.
    pub(super) drain: CancellationToken,
    /// Limits the log lines about clients without a valid client certificate.
    pub(super) refused: Arc<LogLimiter>,
}

impl Shared {
    /// Serves the connection until it ends. Until a request on it has a secret path, the connection
    /// may be closed earlier: when another connection needs its slot, or when the limits of
    /// unauthenticated clients ([`Limits::unauthenticated_timeout`], [`Limits::trusted_timeout`],
    /// [`Limits::unauthenticated_bytes`]) are reached.
    pub(super) async fn connection(
        self,
        tcp: TcpStream,
        slot: ConnectionSlot,
        tls: Arc<ServerConfig>,
    ) {
        let (limits, accepted) = (self.limits.clone(), Instant::now());
        let (metrics, evicted) = (self.metrics.clone(), slot.evicted());
        let client = ClientState::new(
            slot,
            self.authenticated_connections.clone(),
            metrics.clone(),
        );
        let client = Arc::new(client);
        let mut served = pin!(self.serve(tcp, tls, client.clone()));
        let (ended, cause) = tokio::select! {
            biased;
            () = served.as_mut() => (true, "Disconnected"),
            () = client.authenticated() => (false, ""),
            () = evicted => (false, "Evicted"),
            () = out_of_time(&limits, accepted, &client) => (false, "TimedOut"),
        };
        if !client.is_authenticated() {
            metrics
                .admission
                .unauthenticated_closed(client.refusal().unwrap_or(cause));
        } else if !ended {
            served.await;
        }
    }

    async fn serve(self, tcp: TcpStream, tls: Arc<ServerConfig>, client: Arc<ClientState>) {
        let peer = tcp.peer_addr().ok();
        let _ = tcp.set_nodelay(true);
        let bytes = self.limits.unauthenticated_bytes;
        let tcp = ByteLimited::new(tcp, bytes, client.clone());
        let Ok(hello) = LazyConfigAcceptor::new(Acceptor::default(), tcp).await else {
            return;
        };
        client.mark_active();
        let tls = match hello.into_stream(tls).await {
            Ok(tls) => tls,
            Err(error) => return report_client(&error, peer, &self.refused),
        };
        let authenticator = PathAuthenticator {
            app: self.app,
            paths: self.paths,
            client: client.clone(),
            closing: self.closing,
        };
        let mut builder = http1::Builder::new();
        // hyper applies the header timeout between requests, too: it is the idle timeout. Without a
        // timer, hyper ignores the timeout.
        let timer = builder.timer(TokioTimer::new());
        let builder = timer
            .header_read_timeout(self.limits.idle)
            .max_buf_size(BUFFER);
        let mut connection = pin!(builder.serve_connection(TokioIo::new(tls), authenticator));
        let ends = async {
            tokio::select! {
                () = client.closing() => {}
                () = self.drain.cancelled() => {}
            }
            // A request may have arrived in this moment: the runtime finds out before it continues.
            yield_now().await;
        };
        tokio::select! {
            biased;
            // An error that ends a connection is ignored: the client has caused it, and the server
            // can do nothing about it.
            _ = connection.as_mut() => return,
            () = ends => {}
        }
        // A client that is about to send its first request may be the API server. The connection
        // ends with the answer, or when the time of such clients is over.
        if client.is_authenticated() {
            connection.as_mut().graceful_shutdown();
        }
        let _ = connection.await;
    }
}

/// Completes when the time is over in which a connection must get a request with a secret path.
async fn out_of_time(limits: &Limits, accepted: Instant, client: &ClientState) {
    sleep_until(accepted + limits.unauthenticated_timeout).await;
    if client.may_be_trusted() {
        sleep_until(accepted + limits.trusted_timeout).await;
    }
}

/// Logs a failed TLS handshake if the client certificate is missing or invalid, because the
/// administrator has to correct that. Other handshake errors are caused by the client and are not
/// logged.
fn report_client(error: &io::Error, peer: Option<SocketAddr>, refused: &LogLimiter) {
    let error = error.get_ref().and_then(|error| error.downcast_ref());
    if let Some(
        error @ (rustls::Error::NoCertificatesPresented | rustls::Error::InvalidCertificate(_)),
    ) = error
        && let Some(suppressed) = refused.check()
    {
        let peer = peer.map(tracing::field::display);
        tracing::warn!(peer, %error, suppressed, "a TLS handshake was refused: the client \
            certificate is missing, or is not valid by --client-ca-file");
    }
}
