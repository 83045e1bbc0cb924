//! The HTTPS server: an accept loop of our own, because no crate offers a connection cap, a handshake deadline, a first-request
//! deadline and a lame duck together.
//!
//! The API server speaks HTTP/1.1 to a Service, one review at a time per connection, keeps idle connections for 90 s and does not
//! replay a POST that met a closing connection. So: idle connections are kept longer than that, and before the end every answer
//! says `connection: close` for a while.

use crate::{
    listener::Listener,
    telemetry::{Metrics, Sparse},
};
use arc_swap::ArcSwapOption;
use axum::{
    Router,
    extract::Request,
    http::{HeaderValue, header::CONNECTION},
    middleware::{Next, from_fn},
};
use hyper::{
    body::Incoming,
    server::conn::{http1, http2},
};
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::graceful::{GracefulConnection, GracefulShutdown},
    service::TowerToHyperService,
};
use rustls::ServerConfig;
use std::{
    io,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::OwnedSemaphorePermit,
    time::timeout,
};
use tokio_rustls::{TlsAcceptor, server::TlsStream};
use tokio_util::sync::CancellationToken;
use tower::util::MapRequest;

/// What a client may take of the server.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Connections at once; further ones wait in the kernel's backlog.
    pub connections: usize,
    /// For the TLS handshake.
    pub handshake: Duration,
    /// For the first request on a connection.
    pub first_request: Duration,
    /// Between requests on HTTP/1.1. More than the API server's 90 s, or it meets our close with a review. HTTP/2, which the API
    /// server speaks to localhost only, is kept as long as the client answers pings.
    pub idle: Duration,
    /// After `stop`: still serving, every answer asks to close.
    pub lame_duck: Duration,
    /// After the lame duck: for reviews under way.
    pub drain: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 512,
            handshake: Duration::from_secs(5),
            first_request: Duration::from_secs(10),
            idle: Duration::from_secs(120),
            lame_duck: Duration::from_secs(5),
            drain: Duration::from_secs(10),
        }
    }
}

/// The certificate of the moment; nothing until there is one. New connections see a new one at once.
pub type Certificate = Arc<ArcSwapOption<ServerConfig>>;

/// Serves until `stop`, then until the lame duck and the drain are over.
pub async fn serve(
    listener: TcpListener,
    certificate: Certificate,
    app: Router,
    limits: Limits,
    metrics: Arc<Metrics>,
    stop: CancellationToken,
) {
    let listener = Listener::new(listener, limits.connections);
    let closing = Arc::new(AtomicBool::new(false));
    let app = app.layer(from_fn(closing_header(closing.clone())));
    let server = Server {
        certificate,
        app,
        limits,
        metrics,
        graceful: GracefulShutdown::new(),
        refused: Arc::default(),
    };
    let lame_duck = async {
        stop.cancelled().await;
        closing.store(true, Ordering::Relaxed);
        tokio::time::sleep(server.limits.lame_duck).await;
    };
    tokio::select! { () = server.accept(&listener) => {}, () = lame_duck => {} }
    drop(listener);
    let drain = server.limits.drain;
    if timeout(drain, server.graceful.shutdown()).await.is_err() {
        tracing::warn!(?drain, "connections were cut at the end of the drain");
    }
}

fn closing_header(
    closing: Arc<AtomicBool>,
) -> impl Fn(Request, Next) -> futures::future::BoxFuture<'static, axum::response::Response> + Clone
{
    move |request, next| {
        let closing = closing.clone();
        Box::pin(async move {
            let mut response = next.run(request).await;
            if closing.load(Ordering::Relaxed) {
                response
                    .headers_mut()
                    .insert(CONNECTION, HeaderValue::from_static("close"));
            }
            response
        })
    }
}

struct Server {
    certificate: Certificate,
    app: Router,
    limits: Limits,
    metrics: Arc<Metrics>,
    graceful: GracefulShutdown,
    /// Lines about clients without the right certificate.
    refused: Arc<Sparse>,
}

impl Server {
    async fn accept(&self, listener: &Listener) {
        loop {
            let (tcp, permit) = listener.accept().await;
            self.connection(tcp, permit);
        }
    }

    fn connection(&self, tcp: TcpStream, permit: Option<OwnedSemaphorePermit>) {
        let Some(config) = self.certificate.load_full() else {
            return;
        };
        let (app, limits, metrics, watcher) = (
            self.app.clone(),
            self.limits.clone(),
            self.metrics.clone(),
            self.graceful.watcher(),
        );
        let (peer, refused) = (tcp.peer_addr().ok(), self.refused.clone());
        tokio::spawn(async move {
            let _permit = permit;
            let _ = tcp.set_nodelay(true);
            let tls = match timeout(limits.handshake, TlsAcceptor::from(config).accept(tcp)).await {
                Ok(Ok(tls)) => tls,
                Ok(Err(error)) => return tell_of_client(&error, peer, &refused),
                Err(_) => return,
            };
            metrics.connected(1);
            let asked = Arc::new(AtomicBool::new(false));
            // ALPN decides. Guessing from the first bytes, as hyper-util's `auto` does, has no deadline.
            if tls.get_ref().1.alpn_protocol() == Some(b"h2") {
                let connection = http2_connection(tls, &app, &asked);
                unless_mute(limits.first_request, &asked, watcher.watch(connection)).await;
            } else {
                let connection = http1_connection(tls, &app, &asked, limits.idle);
                unless_mute(limits.first_request, &asked, watcher.watch(connection)).await;
            }
            metrics.connected(-1);
        });
    }
}

/// Handshakes fail for many reasons that are nobody's business here. That a client has no certificate, or the wrong one, is ours.
fn tell_of_client(error: &io::Error, peer: Option<SocketAddr>, refused: &Sparse) {
    let error = error.get_ref().and_then(|error| error.downcast_ref());
    if let Some(
        error @ (rustls::Error::NoCertificatesPresented | rustls::Error::InvalidCertificate(_)),
    ) = error
        && let Some(left_out) = refused.due()
    {
        tracing::warn!(peer = peer.map(tracing::field::display), %error, left_out, "a client was refused: see --client-ca-file");
    }
}

type Connection = TokioIo<TlsStream<TcpStream>>;

/// The app, noting that a request has arrived.
fn noting(
    app: &Router,
    asked: &Arc<AtomicBool>,
) -> impl tower::Service<
    hyper::Request<Incoming>,
    Response = axum::response::Response,
    Error = std::convert::Infallible,
    Future: Send,
> + Clone
+ Send
+ use<> {
    let asked = asked.clone();
    MapRequest::new(
        app.clone().into_service(),
        move |request: hyper::Request<Incoming>| {
            asked.store(true, Ordering::Relaxed);
            request
        },
    )
}

fn http1_connection(
    tls: TlsStream<TcpStream>,
    app: &Router,
    asked: &Arc<AtomicBool>,
    idle: Duration,
) -> impl GracefulConnection {
    let io: Connection = TokioIo::new(tls);
    // The header timeout also runs between requests: it is the idle timeout. Without a timer it would do nothing at all.
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(idle);
    builder.serve_connection(io, TowerToHyperService::new(noting(app, asked)))
}

fn http2_connection(
    tls: TlsStream<TcpStream>,
    app: &Router,
    asked: &Arc<AtomicBool>,
) -> impl GracefulConnection {
    let io: Connection = TokioIo::new(tls);
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .max_concurrent_streams(128)
        .max_header_list_size(16 * 1024);
    builder
        .keep_alive_interval(Duration::from_secs(30))
        .keep_alive_timeout(Duration::from_secs(10));
    builder.serve_connection(io, TowerToHyperService::new(noting(app, asked)))
}

/// Drives the connection, but gives it up if no request has come by then.
async fn unless_mute(first_request: Duration, asked: &AtomicBool, connection: impl Future) {
    let mut connection = std::pin::pin!(connection);
    if timeout(first_request, connection.as_mut()).await.is_err() && asked.load(Ordering::Relaxed) {
        connection.await;
    }
}
