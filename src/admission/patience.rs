//! How long a review may ask the API server, which waits for its answer meanwhile.

use axum::http::Uri;
use k8s_openapi::jiff::SignedDuration;
use std::time::Duration;

/// Where nobody says how long they wait: half of the shortest timeout that a webhook may have.
pub(super) const UNTOLD: Duration = Duration::from_millis(500);
/// A webhook may have no longer one.
const LONGEST_TIMEOUT: Duration = Duration::from_secs(30);

/// Half of the time that the API server says it waits (`?timeout=2s`): the other half is for what comes before and after.
///
/// Source: `staging/src/k8s.io/apiserver/pkg/admission/plugin/webhook/validating/dispatcher.go` (`callHook`) of Kubernetes.
pub(super) fn told(uri: &Uri) -> Duration {
    let mut parameters = uri.query().unwrap_or_default().split('&');
    let timeout = parameters.find_map(|parameter| parameter.strip_prefix("timeout="));
    let timeout = timeout.and_then(|timeout| timeout.parse::<SignedDuration>().ok());
    let timeout = timeout.and_then(|timeout| Duration::try_from(timeout).ok());
    timeout.map_or(UNTOLD, |timeout| timeout.min(LONGEST_TIMEOUT) / 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_half_of_what_the_api_server_waits() {
        for (uri, milliseconds) in [
            ("/hook?timeout=1s", 500),
            ("/hook?a=b&timeout=2s&c", 1000),
            ("/hook?timeout=1.5s", 750),
            ("/hook?timeout=300ms", 150),
            ("/hook?timeout=30s", 15_000),
            ("/hook?timeout=9000h", 15_000),
            ("/hook?timeout=-1s", 500),
            ("/hook?timeout=soon", 500),
            ("/hook?timeout=", 500),
            ("/hook", 500),
        ] {
            let told = told(&uri.parse().expect("a URI"));
            assert_eq!(told.as_millis(), milliseconds, "{uri}");
        }
    }
}
