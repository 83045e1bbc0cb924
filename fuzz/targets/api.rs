//! An API server with one object, for targets whose bytes are that object.

use http::{Method, Request, Response};
use http_body_util::BodyExt as _;
use kube::client::Body;
use serde_json::{Value, json};
use std::{
    convert::Infallible,
    sync::{Arc, Mutex, MutexGuard},
};
use tower::service_fn;

/// The stored bytes, which may initially not be a valid object, and all writes.
#[derive(Default)]
pub struct State {
    pub stored: Vec<u8>,
    pub written: Vec<Value>,
}

/// An API server. Its clones share their state.
#[derive(Clone, Default)]
pub struct Api(Arc<Mutex<State>>);

impl Api {
    /// Creates an API server that stores these bytes as its object; none if there are no bytes.
    pub fn storing(bytes: &[u8]) -> Self {
        let api = Self::default();
        api.state().stored = bytes.to_vec();
        api
    }

    pub fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().expect("no panic before")
    }

    /// Creates a client. `fixed` answers first, if it has an object for the path.
    pub fn client(&self, fixed: fn(&str) -> Option<Value>) -> kube::Client {
        let api = self.clone();
        let service = service_fn(move |request: Request<Body>| {
            let api = api.clone();
            async move {
                let (head, body) = request.into_parts();
                let body = body.collect().await.expect("a body").to_bytes();
                let (code, answer) = match fixed(head.uri.path()) {
                    Some(object) => (200, object.to_string().into_bytes()),
                    None => api.answer(&head.method, &body),
                };
                let answer = Response::builder().status(code).body(Body::from(answer));
                Ok::<_, Infallible>(answer.expect("an answer"))
            }
        });
        kube::Client::new(service, "default")
    }

    fn answer(&self, method: &Method, body: &[u8]) -> (u16, Vec<u8>) {
        let mut state = self.state();
        if method != Method::GET {
            let mut object: Value = serde_json::from_slice(body).expect("an object");
            let stored: Value = serde_json::from_slice(&state.stored).unwrap_or_default();
            let version = &stored["metadata"]["resourceVersion"];
            assert_eq!(
                &object["metadata"]["resourceVersion"], version,
                "unconditional"
            );
            assert_eq!(method == Method::POST, state.stored.is_empty());
            state.written.push(object.clone());
            object["metadata"]["resourceVersion"] = json!(state.written.len().to_string());
            state.stored = object.to_string().into_bytes();
        }
        if state.stored.is_empty() {
            let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure",
                "reason": "NotFound", "message": "not found", "code": 404});
            return (404, status.to_string().into_bytes());
        }
        (200, state.stored.clone())
    }
}
