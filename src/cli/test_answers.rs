//! A simulated API server for the tests of commands.

use kube::{Client, client::Body};
use serde_json::{Value, json};

/// A client of an API server that answers each request with this code and body.
pub(super) fn answering(code: u16, answer: &Value) -> Client {
    let answer = answer.to_string();
    let service = tower::service_fn(move |_: http::Request<Body>| {
        let response = http::Response::builder().status(code);
        let response = response.body(Body::from(answer.clone().into_bytes()));
        std::future::ready(Ok::<_, std::io::Error>(response.expect("a response")))
    });
    Client::new(service, "default")
}

/// The `Status` of a failure, with the message `the words`.
pub(super) fn failure(code: u16, reason: &str) -> Value {
    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "reason": reason, "message": "the words", "code": code})
}
