//! The HTTPS server. It has its own accept loop because no crate combines limited slots and
//! deadlines for unauthenticated connections with a lame-duck phase.
//!
//! A connection is unauthenticated until a request on it shows a secret path. Unauthenticated
//! connections have few slots and little time and may send few bytes; connections of the API
//! server have a separate limit.
//!
//! The API server speaks HTTP/1.1 to a Service, sends one review at a time per connection, keeps
//! idle connections for 90 s and does not repeat a POST that met a closing connection. So this
//! server keeps idle connections longer than that, and answers with `connection: close` for a while
//! before it stops. It has no HTTP/2, because [`crate::tls`] does not offer it.

use super::{
    authenticated_connections::AuthenticatedConnections, connection::Shared, limits::Limits,
    secret_paths::SecretPaths,
};
use crate::{
    listener::{Certificate, Listener},
    telemetry::Metrics,
};
use axum::Router;
use futures::FutureExt as _;
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tokio::{net::TcpListener, task::unconstrained, time::timeout};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

/// Minimum time of an unauthenticated connection from the address of an API server before it may be
/// closed for another one.
const MIN_CONNECTION_TIME: Duration = Duration::from_secs(1);

/// Serves `app` until `stop` and the following lame-duck and drain phases are over.
///
/// A request reaches `app`, under the path of its hook, if `paths` accept its path. It is answered
/// 503 instead if its connection gets no slot; see [`Limits::connections`]. Any other request is
/// answered 404, its body is not read, and its connection is closed.
pub async fn serve(
    listener: TcpListener,
    certificate: Certificate,
    app: Router,
    paths: SecretPaths,
    limits: Limits,
    metrics: Arc<Metrics>,
    stop: CancellationToken,
) {
    let listener = Listener::new(listener, limits.unauthenticated, MIN_CONNECTION_TIME);
    let connections = TaskTracker::new();
    let shared = Shared {
        app,
        paths,
        authenticated_connections: Arc::new(AuthenticatedConnections::new(limits.connections)),
        limits,
        metrics,
        closing: Arc::default(),
        drain: CancellationToken::new(),
        refused: Arc::default(),
    };
    let lame_duck = lame_duck(&stop, &shared.closing, shared.limits.lame_duck);
    tokio::select! {
        () = accept(&listener, &certificate, &shared, &connections) => {}
        () = lame_duck => {}
    }
    // Connections that the kernel has queued, for example while this process stood still.
    unconstrained(accept(&listener, &certificate, &shared, &connections)).now_or_never();
    drop(listener);
    shared.drain.cancel();
    connections.close();
    let drain = shared.limits.drain;
    if timeout(drain, connections.wait()).await.is_err() {
        tracing::warn!(
            ?drain,
            "the server stops, and closes connections whose reviews did not end \
            within the drain period"
        );
    }
}

async fn lame_duck(stop: &CancellationToken, closing: &AtomicBool, time: Duration) {
    stop.cancelled().await;
    closing.store(true, Ordering::Relaxed);
    tokio::time::sleep(time).await;
}

async fn accept(
    listener: &Listener,
    certificate: &Certificate,
    shared: &Shared,
    connections: &TaskTracker,
) {
    loop {
        let (tcp, slot) = listener.accept().await;
        if let Some(tls) = certificate.load_full() {
            connections.spawn(shared.clone().connection(tcp, slot, tls));
        }
    }
}
