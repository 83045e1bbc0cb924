//! An API server with a few objects, for the webhooks that read from it. A byte selects the
//! answers.

use http::{Method, Request, Response};
use http_body_util::BodyExt as _;
use kube::client::Body;
use serde_json::{Value, json};
use std::{
    convert::Infallible,
    future::pending,
    sync::{
        Arc, LazyLock,
        atomic::{AtomicBool, AtomicU8, Ordering::Relaxed},
    },
    time::Duration,
};
use tokio::time::sleep;
use tower::service_fn;

/// The delay of a late answer. It is shorter than the call budget of a review, which is 500 ms.
const LATE: Duration = Duration::from_millis(400);

/// An API server. Its clones share their state.
#[derive(Clone, Default)]
pub struct Cluster(Arc<State>);

#[derive(Default)]
struct State {
    /// Bits 0 and 1 select the answers to reads of namespaces, bits 2 and 3 to other reads, and
    /// bits 4 and 5 to writes.
    choice: AtomicU8,
    written: AtomicBool,
}

impl Cluster {
    /// Selects the answers to all later requests, except LIST and WATCH.
    pub fn choose(&self, choice: u8) {
        self.0.choice.store(choice, Relaxed);
    }

    /// Returns whether a write succeeded.
    pub fn was_written(&self) -> bool {
        self.0.written.load(Relaxed)
    }

    pub fn client(&self) -> kube::Client {
        let cluster = self.clone();
        let service = service_fn(move |request: Request<Body>| {
            let cluster = cluster.clone();
            async move {
                let (head, body) = request.into_parts();
                let sent = body.collect().await.expect("a body").to_bytes();
                let sent = serde_json::from_slice(&sent).unwrap_or_default();
                let answer = cluster.answer(&head.method, &head.uri, sent);
                let Some((code, answer)) = answer else {
                    return pending().await;
                };
                if cluster.is_late(head.uri.path()) {
                    sleep(LATE).await;
                }
                let answer = Body::from(answer.to_string().into_bytes());
                let answer = Response::builder().status(code).body(answer);
                Ok::<_, Infallible>(answer.expect("an answer"))
            }
        });
        kube::Client::new(service, "default")
    }

    /// Returns whether the answer arrives after [`LATE`].
    fn is_late(&self, path: &str) -> bool {
        is_namespace(path) && self.0.choice.load(Relaxed) & 3 == 3
    }

    /// Returns the answer; none if the request is never answered.
    fn answer(&self, method: &Method, uri: &http::Uri, sent: Value) -> Option<(u16, Value)> {
        let (path, query) = (uri.path(), uri.query().unwrap_or_default());
        let choice = self.0.choice.load(Relaxed);
        let (namespaces, others, writes) = (choice & 3, choice >> 2 & 3, choice >> 4 & 3);
        if query.contains("watch=") {
            return None;
        }
        if let Some((_, objects)) = OBJECTS.iter().find(|(list, _)| *list == path)
            && method == Method::GET
        {
            let metadata = json!({"resourceVersion": "1"});
            return Some((200, json!({"metadata": metadata, "items": objects})));
        }
        if path.ends_with("/subjectaccessreviews") {
            return match others {
                0 | 1 => Some((201, review_of_access(sent, others == 0))),
                2 => Some(failure(503, "ServiceUnavailable")),
                _ => None,
            };
        }
        if method != Method::GET {
            let metadata = json!({"metadata": {"name": "o", "namespace": "ns", "uid": "new"}});
            let (code, answer) = match writes {
                0 => (200, metadata),
                1 => failure(409, "Conflict"),
                2 => failure(422, "Invalid"),
                _ => return None,
            };
            self.0.written.fetch_or(code == 200, Relaxed);
            return Some((code, answer));
        }
        let namespace = is_namespace(path);
        match (namespace, if namespace { namespaces } else { others }) {
            (_, 0) | (true, 3) => Some(stored(path)),
            (_, 1) => Some(failure(404, "NotFound")),
            // The namespace was deleted and recreated.
            (true, 2) => Some((200, json!({"metadata": {"name": "ns", "uid": "recreated"}}))),
            (false, 2) => Some(failure(503, "ServiceUnavailable")),
            _ => None,
        }
    }
}

/// Returns whether the path is that of one namespace.
fn is_namespace(path: &str) -> bool {
    path.starts_with("/api/v1/namespaces/") && path.split('/').count() == 5
}

fn review_of_access(mut review: Value, allowed: bool) -> Value {
    review["status"] = json!({"allowed": allowed});
    review
}

fn failure(code: u16, reason: &str) -> (u16, Value) {
    let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure",
        "reason": reason, "message": "the cause", "code": code});
    (code, status)
}

/// Returns the object at this path.
fn stored(path: &str) -> (u16, Value) {
    let kind = |list: &str| list.rsplit('/').next() == path.rsplit('/').nth(1);
    let (_, name) = path.rsplit_once('/').unwrap_or_default();
    let mut objects = OBJECTS.iter().filter(|(list, _)| kind(list));
    let objects = objects.next().into_iter().flat_map(|(_, objects)| objects);
    let mut named = objects.filter(|object| object["metadata"]["name"] == name);
    let found = named.next().map(|object| (200, object.clone()));
    found.unwrap_or_else(|| failure(404, "NotFound"))
}

/// The stored objects of each kind, by the path of its LIST.
static OBJECTS: LazyLock<[(&str, Vec<Value>); 9]> = LazyLock::new(|| {
    [
        (
            "/api/v1/namespaces",
            vec![json!({"metadata": {"name": "ns", "uid": "n"}})],
        ),
        ("/api/v1/configmaps", vec![]),
        ("/api/v1/namespaces/volume-warden/configmaps", vec![]),
        ("/api/v1/pods", vec![pod()]),
        ("/api/v1/persistentvolumeclaims", claims()),
        ("/api/v1/persistentvolumes", volumes()),
        ("/apis/apps/v1/statefulsets", vec![set()]),
        ("/apis/storage.k8s.io/v1/storageclasses", vec![class()]),
        ("/apis/storage.k8s.io/v1/volumeattachments", vec![]),
    ]
});

fn pod() -> Value {
    json!({
        "metadata": {"name": "p", "namespace": "ns", "uid": "p"},
        "spec": {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]},
        "status": {"phase": "Pending"},
    })
}

/// A claim that is being deleted, and one whose volumes pv-releaser manages.
fn claims() -> Vec<Value> {
    let labels = json!({
        "reclaimable-pv-releaser.kubernetes.io/managed-by": "dynamic-reclaimable-pvc-controllers",
    });
    let spec = json!({"storageClassName": "fast", "volumeName": "v"});
    vec![
        json!({
            "metadata": {"name": "c", "namespace": "ns", "uid": "u",
                "deletionTimestamp": "2026-01-01T00:00:00Z"},
            "spec": spec, "status": {"phase": "Bound"},
        }),
        json!({
            "metadata": {"name": "managed", "namespace": "ns", "uid": "m", "labels": labels},
            "spec": spec, "status": {"phase": "Bound"},
        }),
    ]
}

/// A volume in the trash, a parked one, and one that is reserved for a claim of an earlier
/// namespace.
fn volumes() -> Vec<Value> {
    let trash = json!({
        "policy": "Delete", "windowSeconds": 3600, "deletedAt": "2026-01-01T00:00:00Z",
        "claim": {"namespace": "ns", "name": "gone", "uid": "g", "namespaceUid": "n"},
    });
    let volume = |name: &str, annotations: Value, claim_ref: Value, phase: &str| {
        json!({
            "metadata": {"name": name, "uid": name, "resourceVersion": "1",
                "annotations": annotations},
            "spec": {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"},
                "claimRef": claim_ref, "persistentVolumeReclaimPolicy": "Retain",
                "storageClassName": "fast", "volumeMode": "Filesystem"},
            "status": {"phase": phase},
        })
    };
    let recorded = |uid| json!({"volume-warden.dev/claim-namespace": format!("ns/{uid}/g")});
    vec![
        volume(
            "trash",
            json!({"volume-warden.dev/trash": trash.to_string()}),
            json!({"namespace": "ns", "name": "gone", "uid": "g"}),
            "Released",
        ),
        volume(
            "parked",
            recorded("n"),
            json!({"namespace": "volume-warden", "name": "parked-parked"}),
            "Available",
        ),
        volume(
            "reserved",
            recorded("earlier"),
            json!({"namespace": "ns", "name": "again"}),
            "Available",
        ),
    ]
}

fn set() -> Value {
    json!({
        "metadata": {"name": "web", "namespace": "ns", "uid": "s"},
        "spec": {
            "replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "serviceName": "web",
            "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Delete"},
            "template": {"metadata": {"labels": {"app": "web"}}},
            "volumeClaimTemplates": [{"metadata": {"name": "data"}}],
        },
    })
}

fn class() -> Value {
    let annotations = json!({"volume-warden.dev/undelete-window": "72h"});
    json!({
        "metadata": {"name": "fast", "uid": "f", "annotations": annotations}, "provisioner": "p",
    })
}
