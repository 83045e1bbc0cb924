//! Serves the probes and the metrics.

use super::{
    Metrics,
    http::{Scheme, serve},
    scrapes::{Scrapes, scrapes},
};
use crate::listener::{Certificate, ConnectionSlot};
use axum::{
    Extension, Router,
    extract::Request,
    http::{
        HeaderMap, StatusCode,
        header::{AUTHORIZATION, CONTENT_TYPE, WWW_AUTHENTICATE},
    },
    middleware::{Next, from_fn},
    response::{IntoResponse, Response},
    routing::get,
};
use futures::future::BoxFuture;
use std::sync::Arc;
use tokio::net::TcpListener;

const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
/// Maximum length of a bearer token, in bytes. Tokens of Kubernetes are shorter.
const LONGEST_TOKEN: usize = 8 * 1024;

/// Returns why this replica is not ready for traffic; empty if it is ready.
pub type NotReadyReasons = Arc<dyn Fn() -> Vec<String> + Send + Sync>;

/// Restricts the metrics to clients with an authorized bearer token.
pub struct Authorization {
    /// The certificate of the metrics server, because a token must not be sent in clear text.
    pub certificate: Certificate,
    /// The check of a bearer token.
    pub authorize: TokenAuthorizer,
}

/// The function that checks whether a bearer token may read the metrics.
pub type TokenAuthorizer = Arc<dyn Fn(String) -> BoxFuture<'static, TokenDecision> + Send + Sync>;

/// Whether the bearer of a token may read the metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenDecision {
    /// The bearer may read the metrics.
    Allowed,
    /// The bearer is a known user but may not read the metrics.
    Forbidden,
    /// The token is missing, or not valid for any user.
    Unauthenticated,
    /// It is unknown, for example because the API server did not answer the check.
    Unavailable,
}

/// Serves `/livez`, its alias `/healthz`, and `/readyz` until the future is dropped, for the
/// kubelet, whose `exec` probes query them from within the container.
///
/// `/livez` succeeds while the process runs its tasks: the process exits when a task ends.
/// `/readyz` succeeds if `not_ready_reasons` returns nothing, and otherwise lists what it returns,
/// such as a watch without a complete list.
pub async fn serve_probes(listener: TcpListener, not_ready_reasons: NotReadyReasons) {
    serve(listener, Scheme::Http, probes(not_ready_reasons)).await;
}

/// Serves `/metrics` until the future is dropped: over HTTP to all clients, or over HTTPS to those
/// that `authorization` allows. It also serves the probes to all clients, for clusters whose
/// kubelet queries this port.
pub async fn serve_metrics(
    listener: TcpListener,
    metrics: Arc<Metrics>,
    not_ready_reasons: NotReadyReasons,
    authorization: Option<Authorization>,
) {
    let readiness = not_ready_reasons.clone();
    metrics.before_scrape(move |metrics| metrics.work.ready(readiness().is_empty()));
    let (scrapes, render) = scrapes(metrics);
    let (scheme, authorize) = match authorization {
        None => (Scheme::Http, None),
        Some(authorization) => {
            let scheme = Scheme::Https(authorization.certificate);
            (scheme, Some(authorization.authorize))
        }
    };
    let app = probes(not_ready_reasons).merge(exposition(scrapes, authorize));
    tokio::select! { () = serve(listener, scheme, app) => {}, () = render => {} }
}

fn probes(not_ready_reasons: NotReadyReasons) -> Router {
    let ready = move || async move {
        let not_ready_reasons = not_ready_reasons();
        if not_ready_reasons.is_empty() {
            (StatusCode::OK, "ok\n".to_owned())
        } else {
            let sentence = format!("not ready: {}\n", not_ready_reasons.join(", "));
            (StatusCode::SERVICE_UNAVAILABLE, sentence)
        }
    };
    let live = || async { "ok\n" };
    Router::new()
        .route("/readyz", get(ready))
        .route("/livez", get(live))
        .route("/healthz", get(live))
}

fn exposition(scrapes: Scrapes, authorize: Option<TokenAuthorizer>) -> Router {
    let text = move || async move {
        match scrapes.text().await {
            Some(text) => ([(CONTENT_TYPE, OPENMETRICS)], text).into_response(),
            None => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
        }
    };
    let check =
        move |Extension(slot): Extension<Arc<ConnectionSlot>>, request: Request, next: Next| {
            let authorize = authorize.clone();
            async move {
                // When all slots are taken, connections from an address that has read the metrics
                // before are closed last, so that a flood from others does not keep Prometheus out.
                match refusal(authorize, request.headers()).await {
                    None => {
                        slot.trust_address();
                        next.run(request).await
                    }
                    Some(refusal) => refusal,
                }
            }
        };
    Router::new()
        .route("/metrics", get(text))
        .layer(from_fn(check))
}

/// Returns the answer to a client that may not read the metrics; none if it may.
async fn refusal(authorize: Option<TokenAuthorizer>, headers: &HeaderMap) -> Option<Response> {
    let decision = match (authorize?, token(headers)) {
        (authorize, Some(token)) => authorize(token).await,
        (_, None) => TokenDecision::Unauthenticated,
    };
    Some(match decision {
        TokenDecision::Allowed => return None,
        TokenDecision::Forbidden => StatusCode::FORBIDDEN.into_response(),
        TokenDecision::Unauthenticated => {
            let challenge = [(WWW_AUTHENTICATE, "Bearer")];
            (StatusCode::UNAUTHORIZED, challenge).into_response()
        }
        TokenDecision::Unavailable => StatusCode::SERVICE_UNAVAILABLE.into_response(),
    })
}

/// Returns the bearer token of a request.
///
/// Source: RFC 6750, section 2.1; the scheme is not case-sensitive (RFC 9110, section 11.1).
fn token(headers: &HeaderMap) -> Option<String> {
    let (scheme, token) = headers.get(AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    let token = token.trim();
    let fits = (1..=LONGEST_TOKEN).contains(&token.len());
    (scheme.eq_ignore_ascii_case("bearer") && fits).then(|| token.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;

    #[test]
    fn only_bearer_tokens_of_a_usual_length_are_judged() {
        let longest = "x".repeat(LONGEST_TOKEN);
        for (header, expected) in [
            ("Bearer abc", Some("abc")),
            ("bearer  abc ", Some("abc")),
            ("Basic abc", None),
            ("Bearer", None),
            ("Bearer ", None),
            ("", None),
            (&*format!("Bearer {longest}"), Some(&*longest)),
            (&format!("Bearer {longest}x"), None),
        ] {
            let mut headers = HeaderMap::new();
            let value = HeaderValue::from_str(header).expect("a value");
            headers.insert(AUTHORIZATION, value);
            assert_eq!(token(&headers).as_deref(), expected, "{header:.20}");
        }
        assert_eq!(token(&HeaderMap::new()), None);
    }
}
