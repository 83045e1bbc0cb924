//! Probes and metrics on a plain port of their own.

use super::Metrics;
use axum::{
    Router, http::StatusCode, http::header::CONTENT_TYPE, response::IntoResponse, routing::get,
};
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// What is still missing before this replica may be sent traffic; empty when nothing is.
pub type Missing = Arc<dyn Fn() -> Vec<String> + Send + Sync>;

/// Serves `/livez`, `/readyz` and `/metrics` until `stop`.
///
/// `/livez` says that the process runs its tasks: it ends by itself when one of them does. `/readyz` says that every watch
/// has a complete list and that there is a certificate to serve; if not, what is missing.
///
/// # Errors
/// When the listener fails.
pub async fn serve(
    listener: TcpListener,
    metrics: Arc<Metrics>,
    missing: Missing,
    stop: CancellationToken,
) -> std::io::Result<()> {
    let text = move || async move { ([(CONTENT_TYPE, OPENMETRICS)], metrics.text()) };
    let ready = move || async move {
        let missing = missing();
        if missing.is_empty() {
            (StatusCode::OK, "ok\n".to_owned()).into_response()
        } else {
            (
                StatusCode::SERVICE_UNAVAILABLE,
                format!("not ready: {}\n", missing.join(", ")),
            )
                .into_response()
        }
    };
    let live = || async { "ok\n" };
    let app = Router::new()
        .route("/metrics", get(text))
        .route("/readyz", get(ready))
        .route("/livez", get(live))
        .route("/healthz", get(live));
    axum::serve(listener, app)
        .with_graceful_shutdown(stop.cancelled_owned())
        .await
}
