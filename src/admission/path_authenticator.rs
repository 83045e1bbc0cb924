//! Checks the path of each request before any of its body is read.

use super::{client_state::ClientState, secret_paths::SecretPaths};
use axum::{
    Router,
    body::Body,
    http::{HeaderValue, Request, StatusCode, Uri, header::CONNECTION, uri::PathAndQuery},
    response::Response,
};
use futures::future::{BoxFuture, Either, Ready, ready};
use hyper::{body::Incoming, service::Service};
use std::{
    convert::Infallible,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};
use tower::ServiceExt;

/// Checks the requests of one connection.
pub(super) struct PathAuthenticator {
    pub(super) app: Router,
    pub(super) paths: SecretPaths,
    pub(super) client: Arc<ClientState>,
    /// While true, because the server stops soon, every answer asks the client to close its
    /// connection.
    pub(super) closing: Arc<AtomicBool>,
}

type Answered = Result<Response, Infallible>;

impl Service<Request<Incoming>> for PathAuthenticator {
    type Response = Response;
    type Error = Infallible;
    type Future = Either<Ready<Answered>, BoxFuture<'static, Answered>>;

    fn call(&self, mut request: Request<Incoming>) -> Self::Future {
        let Some(hook) = hook(&self.paths, request.uri()) else {
            self.client.refuse("NotFound");
            return Either::Left(ready(Ok(closed(StatusCode::NOT_FOUND))));
        };
        *request.uri_mut() = hook;
        if !self.client.begin() {
            self.client.refuse("Overloaded");
            return Either::Left(ready(Ok(closed(StatusCode::SERVICE_UNAVAILABLE))));
        }
        let (app, closing) = (self.app.clone(), self.closing.clone());
        let in_flight = InFlightGuard(self.client.clone());
        Either::Right(Box::pin(async move {
            let mut response = app.oneshot(request).await?;
            drop(in_flight);
            if closing.load(Ordering::Relaxed) {
                close(&mut response);
            }
            Ok(response)
        }))
    }
}

/// Marks a request as under way; dropped when the request is answered or its client disconnects.
struct InFlightGuard(Arc<ClientState>);

impl Drop for InFlightGuard {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// Returns the URI of a request without the secret in its path, so that no later code sees the
/// secret. Returns none if the path is not accepted.
fn hook(paths: &SecretPaths, uri: &Uri) -> Option<Uri> {
    let hook = paths.authenticate(uri.path())?;
    let secret = uri.path().len() - hook.len();
    let rest = uri.path_and_query()?.as_str().get(secret..)?;
    let rest = PathAndQuery::try_from(rest).ok()?;
    Some(Uri::from(rest))
}

/// Returns an empty answer, after which the connection is closed: the body of the request is not
/// read.
fn closed(status: StatusCode) -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = status;
    close(&mut response);
    response
}

fn close(response: &mut Response) {
    let close = HeaderValue::from_static("close");
    response.headers_mut().insert(CONNECTION, close);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admission::PathSecret;

    #[test]
    fn the_secret_is_cut_off_and_the_query_kept() {
        let secret = PathSecret::generate().expect("random numbers");
        let paths = SecretPaths::default();
        paths.accept(vec![secret.clone()], false);
        let path = secret.path("/a/b");
        for (uri, expected) in [
            (path.clone(), Some("/a/b")),
            (format!("{path}?timeout=2s"), Some("/a/b?timeout=2s")),
            (format!("https://x:9443{path}?a=/&b"), Some("/a/b?a=/&b")),
            (format!("/a/b?{path}"), None),
            ("*".to_owned(), None),
            ("x:9443".to_owned(), None),
        ] {
            let found = hook(&paths, &uri.parse().expect("a URI"));
            assert_eq!(
                found.map(|uri| uri.to_string()).as_deref(),
                expected,
                "{uri}"
            );
        }
        paths.accept(Vec::new(), true);
        let bare = hook(&paths, &"/a/b?c".parse().expect("a URI"));
        assert_eq!(bare, Some("/a/b?c".parse().expect("a URI")));
    }
}
