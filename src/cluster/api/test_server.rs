//! Simulated API servers for unit tests.

use http::{Request, Response, request::Parts};
use kube::{Client, client::Body};
use serde_json::{Value, json};
use std::{io, sync::Arc, time::Duration};

/// A client of an API server that answers each request with what the function returns: a status
/// code and a body. The function gets the head of the request and its JSON body, or null if it has
/// none.
pub(crate) fn answering<B: ToString>(
    answer: impl Fn(&Parts, Value) -> (u16, B) + Send + Sync + 'static,
) -> Client {
    answering_after(Duration::ZERO, answer)
}

/// As [`answering`], with a function that is called at once and whose answer is sent after `delay`.
pub(crate) fn answering_after<B: ToString>(
    delay: Duration,
    answer: impl Fn(&Parts, Value) -> (u16, B) + Send + Sync + 'static,
) -> Client {
    answering_each_after(move |_| delay, answer)
}

/// As [`answering_after`], with a delay that depends on the head of the request.
pub(crate) fn answering_each_after<B: ToString>(
    delay: impl Fn(&Parts) -> Duration + Send + Sync + 'static,
    answer: impl Fn(&Parts, Value) -> (u16, B) + Send + Sync + 'static,
) -> Client {
    let server = Arc::new((delay, answer));
    let service = tower::service_fn(move |request: Request<Body>| {
        let server = server.clone();
        async move {
            let (delay, answer) = &*server;
            let (head, body) = request.into_parts();
            let body = body.collect_bytes().await.expect("a body");
            let body = if body.is_empty() {
                Value::Null
            } else {
                serde_json::from_slice(&body).expect("JSON")
            };
            let response = response(answer(&head, body));
            let delay = delay(&head);
            if !delay.is_zero() {
                tokio::time::sleep(delay).await;
            }
            Ok::<_, io::Error>(response)
        }
    });
    Client::new(service, "default")
}

fn response((code, body): (u16, impl ToString)) -> Response<Body> {
    let body = Body::from(body.to_string().into_bytes());
    let response = Response::builder().status(code).body(body);
    response.expect("a response")
}

/// A client of an API server that never answers.
pub(crate) fn silent() -> Client {
    let service =
        tower::service_fn(|_: Request<Body>| std::future::pending::<io::Result<Response<Body>>>());
    Client::new(service, "default")
}

/// The answer of an API server that refuses a request: the code, and a `Status` with the message
/// `the words`.
pub(crate) fn failure(code: u16, reason: &str) -> (u16, Value) {
    let status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "reason": reason, "message": "the words", "code": code});
    (code, status)
}

/// Answers after which the API server may have stored the request.
pub(crate) fn uncertain() -> [(u16, Value); 3] {
    [
        failure(500, "InternalError"),
        failure(504, "Timeout"),
        (502, json!({"error": "a proxy"})),
    ]
}
