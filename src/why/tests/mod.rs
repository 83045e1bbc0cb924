//! Tests of causes that a real control plane does not reach within a test, with simulated objects.

mod backend;
mod by_hand;
mod claims;
mod controllers;
mod health;
mod names;
mod namespaces;
mod owned_claims;
mod placement;
mod pods;
mod pods_mounting;
mod pods_restarted;
mod provisioning;
mod quotes;
mod resize;
mod retention;
mod reuse;
mod reuse_policy;
mod reuse_twins;
mod sets;
mod stuck;
mod unprotected;
mod unread;
mod volumes;

use super::{
    Answer, Code, Explanation, LiveReads, Lookup, Next, Object, explain::explain, explain_live,
};
use crate::cluster::test_server::answering;
use k8s_openapi::jiff::Timestamp;
use kube::Client;
use serde_json::{Value, json};
use std::sync::Arc;

/// The time at which the tests call `why`.
const NOW: &str = "2026-01-01T01:00:00Z";

/// The objects of a simulated API server.
#[derive(Default)]
struct Cluster {
    /// The objects, each with the path of its collection.
    objects: Vec<(String, Value)>,
    /// Resources that the user may not read.
    forbidden: Vec<&'static str>,
}

impl Cluster {
    /// Adds an object to the collection with this path, for example `/api/v1/namespaces/shop/pods`.
    fn with(mut self, collection: &str, object: Value) -> Self {
        self.objects.push((collection.to_owned(), object));
        self
    }

    /// Forbids reads of this resource.
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

    /// Adds a ClusterRoleBinding with the label of Volume Warden, which binds a subject of this
    /// kind in the namespace.
    fn binding(self, namespace: &str, kind: &str) -> Self {
        let binding = json!({
            "metadata": {"name": "volume-warden-events", "labels": {"app.kubernetes.io/part-of": "volume-warden"}},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "volume-warden-events"},
            "subjects": [{"kind": kind, "name": "warden", "namespace": namespace}],
        });
        let collection = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
        self.with(collection, binding)
    }

    /// Adds the ClusterRoleBinding of an installation in the namespace.
    fn installed(self, namespace: &str) -> Self {
        self.binding(namespace, "ServiceAccount")
    }

    /// Explains the object by the objects of this cluster.
    async fn explain(self, object: &Object) -> Explanation {
        let now: Timestamp = NOW.parse().expect("a time");
        explain_live(self.client(), object, now).await
    }

    /// The answer about the object, which must exist and be readable.
    async fn explained(self, object: &Object) -> Answer {
        match self.explain(object).await {
            Explanation::Explained(answer) => answer,
            other => panic!("{other:?}"),
        }
    }

    fn client(self) -> Client {
        answering(move |head, _| self.answer(&head.uri))
    }

    fn answer(&self, uri: &http::Uri) -> (u16, Value) {
        let (path, labels) = (uri.path(), wanted_labels(uri.query()));
        let refused = |each: &&'static str| path.split('/').any(|part| part == *each);
        if self.forbidden.iter().any(refused) {
            (403, status(403, "Forbidden"))
        } else if let Some(found) = self.one(path) {
            (200, found.clone())
        } else if path
            .rsplit('/')
            .next()
            .is_some_and(|last| last.ends_with('s'))
        {
            (
                200,
                json!({"metadata": {}, "items": self.all(path, &labels)}),
            )
        } else {
            (404, status(404, "NotFound"))
        }
    }

    fn one(&self, path: &str) -> Option<&Value> {
        let (collection, name) = path.rsplit_once('/')?;
        let mut in_it = self.objects.iter().filter(|(each, _)| each == collection);
        let found = in_it.find(|(_, object)| object["metadata"]["name"] == name);
        found.map(|(_, object)| object)
    }

    /// The objects with these labels in the collection with this path, or in those of all
    /// namespaces.
    fn all(&self, path: &str, labels: &[(String, String)]) -> Vec<&Value> {
        let is_in = |each: &str| match each.split_once("/namespaces/") {
            Some((api, rest)) if !path.contains("/namespaces/") => {
                let resource = rest.split_once('/').map(|(_, resource)| resource);
                resource.is_some_and(|resource| format!("{api}/{resource}") == path)
            }
            _ => each == path,
        };
        let is_labelled = |object: &Value| {
            let mut labels = labels.iter();
            labels.all(|(key, value)| object["metadata"]["labels"][key] == **value)
        };
        let in_it = self.objects.iter().filter(|(each, _)| is_in(each));
        let all = in_it.map(|(_, object)| object);
        all.filter(|object| is_labelled(object)).collect()
    }
}

/// The labels and their values in the `labelSelector` of a query.
fn wanted_labels(query: Option<&str>) -> Vec<(String, String)> {
    let parameters = query.unwrap_or_default().split('&');
    let selector = parameters.filter_map(|each| each.strip_prefix("labelSelector="));
    let selector: String = selector.collect();
    let selector = selector.replace("%2F", "/").replace("%3D", "=");
    let labels = selector
        .split("%2C")
        .filter_map(|each| each.split_once('='));
    let owned = |(key, value): (&str, &str)| (key.to_owned(), value.to_owned());
    labels.map(owned).collect()
}

fn status(code: u16, reason: &str) -> Value {
    json!({"kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": "not for you"})
}

fn codes(answer: &Answer) -> Vec<Code> {
    answer.chain.iter().map(|cause| cause.code).collect()
}

/// The command in the next step of the root cause.
fn command(answer: &Answer) -> &str {
    step(answer).0
}

/// The purpose of that command.
fn purpose(answer: &Answer) -> &str {
    step(answer).1
}

fn step(answer: &Answer) -> (&str, &str) {
    match answer.root().map(|root| &root.next) {
        Some(Next::Run { command, purpose }) => (command.as_str(), purpose.as_str()),
        other => panic!("{other:?}"),
    }
}
