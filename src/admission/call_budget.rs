//! How long a review may take, and how much of that it may spend on asking the API server.

use axum::http::Uri;
use k8s_openapi::jiff::SignedDuration;
use std::time::Duration;

/// Where a client does not say how long it waits: the shortest timeout that a webhook may have.
const UNANNOUNCED: Duration = Duration::from_secs(1);
/// Half of it.
pub(super) const DEFAULT_BUDGET: Duration = Duration::from_millis(500);

/// The time that the API server says it waits (`?timeout=2s`), but not more than `limit`: what a
/// review holds meanwhile is not for the client to decide.
///
/// Source: `staging/src/k8s.io/apiserver/pkg/admission/plugin/webhook/validating/dispatcher.go`
/// (`callHook`) of Kubernetes.
pub(super) fn announced(uri: &Uri, limit: Duration) -> Duration {
    let mut parameters = uri.query().unwrap_or_default().split('&');
    let timeout = parameters.find_map(|parameter| parameter.strip_prefix("timeout="));
    let timeout = timeout.and_then(|timeout| timeout.parse::<SignedDuration>().ok());
    let timeout = timeout.and_then(|timeout| Duration::try_from(timeout).ok());
    timeout.unwrap_or(UNANNOUNCED).min(limit)
}

/// The part of that time in which a review may ask the API server: half of it. The other half is
/// for what happens before and after.
pub(super) fn for_questions(time: Duration) -> Duration {
    time / 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_what_the_api_server_waits_up_to_a_limit() {
        for (uri, limit, milliseconds) in [
            ("/hook?timeout=1s", 2, 1000),
            ("/hook?a=b&timeout=2s&c", 2, 2000),
            ("/hook?timeout=1.5s", 2, 1500),
            ("/hook?timeout=300ms", 2, 300),
            ("/hook?timeout=2s", 1, 1000),
            ("/hook?timeout=30s", 2, 2000),
            ("/hook?timeout=30s", 30, 30_000),
            ("/hook?timeout=9000h", 2, 2000),
            ("/hook?timeout=-1s", 2, 1000),
            ("/hook?timeout=soon", 2, 1000),
            ("/hook?timeout=", 2, 1000),
            ("/hook", 2, 1000),
        ] {
            let limit = Duration::from_secs(limit);
            let time = announced(&uri.parse().expect("a URI"), limit);
            assert_eq!(time.as_millis(), milliseconds, "{uri}");
        }
        assert_eq!(for_questions(UNANNOUNCED), DEFAULT_BUDGET);
    }
}
