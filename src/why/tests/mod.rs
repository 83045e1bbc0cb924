//! Causes that no control plane comes to within a test, from objects that are made up.

mod claims;
mod health;
mod pods;
mod reuse;
mod unread;
mod volumes;
mod wardens;

use super::{Answer, Code, Explanation, Look, Next, Object, World, ask, explain::explain};
use k8s_openapi::jiff::Timestamp;
use kube::{Client, client::Body};
use serde_json::{Value, json};
use std::{convert::Infallible, sync::Arc};

/// When all of it is asked.
const NOW: &str = "2026-01-01T01:00:00Z";

/// What the API server has.
#[derive(Default)]
struct Cluster {
    /// By the path of their collection.
    objects: Vec<(String, Value)>,
    /// Resources that the asker may not read.
    forbidden: Vec<&'static str>,
}

impl Cluster {
    /// With one more object, which is in that collection: `/api/v1/namespaces/shop/pods`.
    fn with(mut self, collection: &str, object: Value) -> Self {
        self.objects.push((collection.to_owned(), object));
        self
    }

    /// Reads of that resource are forbidden.
    fn without(mut self, resource: &'static str) -> Self {
        self.forbidden.push(resource);
        self
    }

    fn claim(self, claim: Value) -> Self {
        self.with("/api/v1/namespaces/shop/persistentvolumeclaims", claim)
    }

    fn pod(self, pod: Value) -> Self {
        self.with("/api/v1/namespaces/shop/pods", pod)
    }

    fn volume(self, volume: Value) -> Self {
        self.with("/api/v1/persistentvolumes", volume)
    }

    fn lease(self, lease: Value) -> Self {
        self.with("/apis/coordination.k8s.io/v1/leases", lease)
    }

    /// In every state that asking takes.
    async fn explain(self, object: &Object) -> Explanation {
        let now: Timestamp = NOW.parse().expect("a time");
        ask(self.client(), object, now).await
    }

    /// With everything read.
    async fn explained(self, object: &Object) -> Answer {
        match self.explain(object).await {
            Explanation::Explained(answer) => answer,
            other => panic!("{other:?}"),
        }
    }

    fn client(self) -> Client {
        let cluster = Arc::new(self);
        let service = tower::service_fn(move |request: http::Request<Body>| {
            let answer = cluster.answer(request.uri().path());
            async move { Ok::<_, Infallible>(answer) }
        });
        Client::new(service, "shop")
    }

    fn answer(&self, path: &str) -> http::Response<Body> {
        let refused = |each: &&'static str| path.split('/').any(|part| part == *each);
        let (code, body) = if self.forbidden.iter().any(refused) {
            (403, status(403, "Forbidden"))
        } else if let Some(found) = self.one(path) {
            (200, found.clone())
        } else if path
            .rsplit('/')
            .next()
            .is_some_and(|last| last.ends_with('s'))
        {
            (200, json!({"metadata": {}, "items": self.all(path)}))
        } else {
            (404, status(404, "NotFound"))
        };
        let body = Body::from(body.to_string().into_bytes());
        let response = http::Response::builder().status(code).body(body);
        response.expect("a response")
    }

    fn one(&self, path: &str) -> Option<&Value> {
        let (collection, name) = path.rsplit_once('/')?;
        let mut in_it = self.objects.iter().filter(|(each, _)| each == collection);
        let found = in_it.find(|(_, object)| object["metadata"]["name"] == name);
        found.map(|(_, object)| object)
    }

    fn all(&self, path: &str) -> Vec<&Value> {
        let in_it = self.objects.iter().filter(|(each, _)| each == path);
        in_it.map(|(_, object)| object).collect()
    }
}

fn status(code: u16, reason: &str) -> Value {
    json!({"kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": "not for you"})
}

fn codes(answer: &Answer) -> Vec<Code> {
    answer.chain.iter().map(|cause| cause.code).collect()
}

/// What the root asks to be run.
fn command(answer: &Answer) -> &str {
    match answer.root().map(|root| &root.next) {
        Some(Next::Run { command, .. }) => command,
        other => panic!("{other:?}"),
    }
}
