//! Probes and metrics on a plain port of their own.

use super::Metrics;
use crate::listener::Listener;
use axum::{
    Router,
    http::{StatusCode, header::CONTENT_TYPE},
    response::IntoResponse,
    routing::get,
};
use hyper::server::conn::http1;
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use std::{sync::Arc, time::Duration};
use tokio::task::spawn_blocking;

const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
/// The port is open to every pod of the cluster: nobody may take all file descriptors through it.
pub const CONNECTIONS: usize = 64;
/// Between requests.
const IDLE: Duration = Duration::from_secs(30);

/// What is still missing before this replica may be sent traffic; empty when nothing is.
pub type Missing = Arc<dyn Fn() -> Vec<String> + Send + Sync>;

/// Serves `/livez`, `/readyz` and `/metrics` for ever.
///
/// `/livez` says that the process runs its tasks: it ends by itself when one of them does. `/readyz` says that every watch
/// has a complete list and that there is a certificate to serve; if not, what is missing.
pub async fn serve(listener: Listener, metrics: Arc<Metrics>, missing: Missing) {
    let readiness = missing.clone();
    metrics.before_scrape(move |metrics| metrics.ready(readiness().is_empty()));
    let app = router(metrics, missing);
    loop {
        let (tcp, place) = listener.accept().await;
        let service = TowerToHyperService::new(app.clone());
        let mut builder = http1::Builder::new();
        builder.timer(TokioTimer::new()).header_read_timeout(IDLE);
        let connection = builder.serve_connection(TokioIo::new(tcp), service);
        tokio::spawn(async move {
            // However it ended, it was its client's business.
            tokio::select! { _ = connection => {}, () = place.evicted() => {} }
        });
    }
}

fn router(metrics: Arc<Metrics>, missing: Missing) -> Router {
    let text = move || async move {
        // Counting everything there is may take a while, and must hold up no webhook.
        let text = spawn_blocking(move || metrics.text()).await;
        let status = if text.is_ok() {
            StatusCode::OK
        } else {
            StatusCode::INTERNAL_SERVER_ERROR
        };
        let body = text.unwrap_or_default();
        (status, [(CONTENT_TYPE, OPENMETRICS)], body)
    };
    let ready = move || async move {
        let missing = missing();
        if missing.is_empty() {
            (StatusCode::OK, "ok\n".to_owned()).into_response()
        } else {
            let sentence = format!("not ready: {}\n", missing.join(", "));
            (StatusCode::SERVICE_UNAVAILABLE, sentence).into_response()
        }
    };
    let live = || async { "ok\n" };
    Router::new()
        .route("/metrics", get(text))
        .route("/readyz", get(ready))
        .route("/livez", get(live))
        .route("/healthz", get(live))
}
