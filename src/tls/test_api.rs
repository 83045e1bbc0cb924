//! An API server with one Secret and one webhook configuration. Another program may revert its
//! caBundle at once.

use super::Warnings;
use crate::{
    clock::Clock,
    cluster::{
        Apply, Configuration, Elector, LatestTime, LeaseName, LeaseObject, ServiceName,
        test_server::{answering, failure},
    },
    telemetry::Metrics,
};
use http::Method;
use kube::{Api, Client};
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

pub(super) const WEBHOOKS: Configuration = Configuration::Mutating("webhooks");

/// The Service that the webhook calls.
pub(super) fn service_name() -> ServiceName {
    ServiceName {
        namespace: "b".to_owned(),
        name: "a".to_owned(),
    }
}

/// An API server with one Secret and one webhook configuration.
#[derive(Clone, Default)]
pub(super) struct Fake {
    /// Whether every request is answered with an error.
    pub(super) fails: bool,
    /// Whether Secrets may not be read.
    pub(super) forbids: bool,
    /// Whether webhook configurations may not be read now.
    pub(super) hides: Arc<AtomicBool>,
    /// Whether Secrets may not be written now.
    pub(super) keeps: Arc<AtomicBool>,
    /// If set, webhook configurations may not be written, and this is the message.
    pub(super) refusal: Option<String>,
    /// Whether a caBundle stays as it was written.
    pub(super) stores_bundles: bool,
    pub(super) state: Arc<Mutex<State>>,
}

#[derive(Default)]
pub(super) struct State {
    secret: Option<Value>,
    configuration: Option<Value>,
    calls: Vec<(Method, String)>,
}

impl Fake {
    pub(super) fn client(&self) -> Client {
        let api = self.clone();
        answering(move |head, body| api.answer(&head.method, head.uri.path(), body))
    }

    fn answer(&self, method: &Method, path: &str, body: Value) -> (u16, Value) {
        let mut state = self.state.lock();
        state.calls.push((method.clone(), path.to_owned()));
        if self.fails {
            return failure(500, "InternalError");
        }
        if path.contains("webhookconfigurations") {
            if self.hides.load(Ordering::SeqCst) {
                return failure(403, "Forbidden");
            }
            if method == Method::PATCH
                && let Some(message) = &self.refusal
            {
                let (code, mut answer) = failure(422, "Invalid");
                answer["message"] = json!(message);
                return (code, answer);
            }
            let webhook = json!({"name": "one", "clientConfig": {"service": {"name": "a", "namespace": "b"}}});
            let metadata = json!({"name": "webhooks", "resourceVersion": "1"});
            let original = json!({"metadata": metadata, "webhooks": [webhook]});
            let stored = state.configuration.get_or_insert(original);
            if method == Method::PATCH && self.stores_bundles {
                let patch: json_patch::Patch = serde_json::from_value(body).expect("a patch");
                json_patch::patch(stored, &patch).expect("the patch applies");
            }
            return (200, stored.clone());
        }
        if !path.contains("/secrets") {
            return failure(404, "NotFound");
        }
        if self.forbids {
            return failure(403, "Forbidden");
        }
        if method != Method::GET {
            if self.keeps.load(Ordering::SeqCst) {
                return failure(403, "Forbidden");
            }
            state.secret = Some(body);
        }
        match &state.secret {
            Some(secret) => (200, secret.clone()),
            None => failure(404, "NotFound"),
        }
    }

    /// The Secret, if it exists.
    pub(super) fn secret(&self) -> Option<Value> {
        self.state.lock().secret.clone()
    }

    /// Returns the number of requests with this method to a path that contains these words.
    pub(super) fn calls(&self, method: &str, words: &str) -> usize {
        let state = self.state.lock();
        let calls = state.calls.iter();
        calls
            .filter(|(by, path)| by == method && path.contains(words))
            .count()
    }

    pub(super) fn warnings(&self) -> Warnings {
        let (client, metrics) = (self.client(), Arc::new(Metrics::new()));
        let lease = LeaseName {
            namespace: "ns".to_owned(),
            name: "nameless".to_owned(),
            identity: "nameless".to_owned(),
            former: None,
            labels: Default::default(),
        };
        let leases = Api::namespaced(client.clone(), "ns");
        let (_, leadership) = Elector::new(
            leases,
            lease.clone(),
            metrics.clone(),
            LatestTime::new(Clock::system()),
        );
        let apply = Apply::new(client.clone(), leadership, 1, false, metrics);
        Warnings::new(Arc::new(apply), LeaseObject::new(client, lease), "a test")
    }
}
