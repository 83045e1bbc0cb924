//! Answers requests for paths that no webhook of this process has.

use crate::{cluster::for_log, plain::bounded, telemetry::LogLimiter};
use axum::{
    http::StatusCode,
    response::{IntoResponse, Response},
};

/// Maximum number of characters of the path in a log line.
const PATH_LIMIT: usize = 200;

/// Answers a request for a path that no webhook of this process has: a webhook configuration is of
/// a component that does not run, or of another release.
pub(super) fn not_served(log: &LogLimiter, path: &str) -> Response {
    if let Some(suppressed) = log.check() {
        // A secret that this replica does not accept may be a part of the path.
        let path = bounded(&for_log(path), PATH_LIMIT);
        tracing::warn!(
            path,
            suppressed,
            "no enabled component has a webhook at this path"
        );
    }
    let sentence = "no enabled component of Volume Warden has a webhook at this path\n";
    (StatusCode::NOT_FOUND, sentence).into_response()
}
