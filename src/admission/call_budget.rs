//! How long an admission review may take, and how much of that time may be spent on calls to the
//! API server.

use axum::http::Uri;
use k8s_openapi::jiff::SignedDuration;
use std::time::Duration;

/// Time limit of a review whose client announces none: the shortest timeout that Kubernetes allows
/// for a webhook.
const UNANNOUNCED: Duration = Duration::from_secs(1);
/// Maximum time for calls to the API server in a review whose client announces no timeout: half of
/// `UNANNOUNCED`.
pub(super) const DEFAULT_BUDGET: Duration = Duration::from_millis(500);

/// Returns the timeout that the API server announces in the query of the request (`?timeout=2s`),
/// or 1 s if the query has no valid timeout. The result is at most `limit`, so that a client
/// cannot occupy the memory for its review for longer.
///
/// Source: `staging/src/k8s.io/apiserver/pkg/admission/plugin/webhook/validating/dispatcher.go`
/// (`callHook`) of Kubernetes.
pub(super) fn requested_timeout(uri: &Uri, limit: Duration) -> Duration {
    let mut parameters = uri.query().unwrap_or_default().split('&');
    let timeout = parameters.find_map(|parameter| parameter.strip_prefix("timeout="));
    let timeout = timeout.and_then(|timeout| timeout.parse::<SignedDuration>().ok());
    let timeout = timeout.and_then(|timeout| Duration::try_from(timeout).ok());
    timeout.unwrap_or(UNANNOUNCED).min(limit)
}

/// Returns the part of the `time` left for a review in which it may call the API server: half of
/// it. The other half is for parsing the request and sending the answer.
pub(super) fn share_for_calls(time: Duration) -> Duration {
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
            let time = requested_timeout(&uri.parse().expect("a URI"), limit);
            assert_eq!(time.as_millis(), milliseconds, "{uri}");
        }
        assert_eq!(share_for_calls(UNANNOUNCED), DEFAULT_BUDGET);
    }
}
