//! The HTTP server of the metrics and probes. It allows one request per connection, few connections
//! and little time.

use crate::listener::{Certificate, ConnectionSlot, Listener};
use axum::{Router, body::Body, http::Request};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::{pin::pin, sync::Arc, time::Duration};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpListener,
    time::sleep,
};
use tokio_rustls::TlsAcceptor;
use tower::ServiceExt;

/// Maximum number of connections. At this limit, a new connection is accepted and an older one is
/// closed; see [`crate::listener`].
const CONNECTIONS: usize = 64;
/// Time limit of the TLS handshake, and of the head of the request.
const HEAD: Duration = Duration::from_secs(5);
/// Time limit of a connection, until the client has read the answer. It is as long as the longest
/// usual `scrape_timeout`.
const WHOLE: Duration = Duration::from_secs(30);
/// Maximum size of the head of a request, in bytes. A token has a few KiB at most.
const BUFFER: usize = 16 * 1024;

/// Transport of a server.
pub(super) enum Scheme {
    /// Plain HTTP.
    Http,
    /// HTTPS. Connections are closed at once while there is no certificate.
    Https(Certificate),
}

/// Serves `app` until the future is dropped. Each request carries the [`ConnectionSlot`] of its
/// connection as an extension.
pub(super) async fn serve(listener: TcpListener, scheme: Scheme, app: Router) {
    // No minimum time: any client may read metrics without authorization, and its address would be
    // trusted then. A new connection must not wait for those of such a client.
    let listener = Listener::new(listener, CONNECTIONS, Duration::ZERO);
    loop {
        let (tcp, slot) = listener.accept().await;
        let tls = match &scheme {
            Scheme::Http => None,
            Scheme::Https(certificate) => match certificate.load_full() {
                Some(config) => Some(TlsAcceptor::from(config)),
                None => continue,
            },
        };
        let app = app.clone();
        #[expect(
            clippy::disallowed_methods,
            reason = "the task ends at the deadline of its connection"
        )]
        tokio::spawn(async move {
            let (slot, deadline) = (Arc::new(slot), pin!(sleep(WHOLE)));
            let evicted = slot.evicted();
            let served = async {
                match tls {
                    None => answer(tcp, app, slot).await,
                    Some(tls) => {
                        let handshake = tokio::time::timeout(HEAD, tls.accept(tcp)).await;
                        if let Ok(Ok(stream)) = handshake {
                            answer(stream, app, slot).await;
                        }
                    }
                }
            };
            tokio::select! { () = served => {}, () = evicted => {}, () = deadline => {} }
        });
    }
}

async fn answer<S>(stream: S, app: Router, slot: Arc<ConnectionSlot>)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let service = service_fn(move |request: Request<Incoming>| {
        let mut request = request.map(Body::new);
        request.extensions_mut().insert(slot.clone());
        app.clone().oneshot(request)
    });
    let mut builder = http1::Builder::new();
    let builder = builder.timer(TokioTimer::new()).header_read_timeout(HEAD);
    // The server answers one request per connection, so no idle connection is kept.
    let builder = builder.keep_alive(false).max_buf_size(BUFFER);
    // An error that ends a connection is ignored: the client has caused it, and the server can do
    // nothing about it.
    let _ = builder
        .serve_connection(TokioIo::new(stream), service)
        .await;
}
