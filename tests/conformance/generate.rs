//! Generates the requests of a sequence.

use super::operation::Operation;
use fastrand::Rng;
use serde_json::{Value, json};

pub const JSON: &str = "application/json";
const JSON_PATCH: &str = "application/json-patch+json";
const MERGE_PATCH: &str = "application/merge-patch+json";
/// Grace periods of deletions, in seconds. The grace period of each pod is five seconds.
const SECONDS: [i64; 4] = [0, 3, 9, -1];
const METADATA: (&str, &str) = (
    "accept",
    "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
);
const METADATA_LIST: (&str, &str) = (
    "accept",
    "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
);

/// A kind of objects.
pub struct Kind {
    pub plural: &'static str,
    pub base: &'static str,
    pub namespaced: bool,
    kind: &'static str,
    version: &'static str,
}

const fn core(plural: &'static str, kind: &'static str, namespaced: bool) -> Kind {
    Kind {
        plural,
        base: "/api/v1",
        namespaced,
        kind,
        version: "v1",
    }
}

/// The kinds that matter to Volume Warden, and the simplest one.
pub const KINDS: &[Kind] = &[
    core("configmaps", "ConfigMap", true),
    core("persistentvolumeclaims", "PersistentVolumeClaim", true),
    core("persistentvolumes", "PersistentVolume", false),
    core("pods", "Pod", true),
    Kind {
        plural: "leases",
        base: "/apis/coordination.k8s.io/v1",
        namespaced: true,
        kind: "Lease",
        version: "coordination.k8s.io/v1",
    },
];

/// Generates a sequence. At its beginning each kind has an object `last`. The final requests label
/// these objects, so that the reading of a watch ends there.
pub fn operations(random: &mut Rng, namespace: &str) -> Vec<(Operation, &'static str)> {
    let last = |kind: &Kind| {
        if kind.namespaced {
            "last".to_owned()
        } else {
            format!("{namespace}-last")
        }
    };
    let mut all: Vec<_> = KINDS
        .iter()
        .map(|kind| {
            let object = object(kind, namespace, &last(kind));
            let create = Operation::new("POST", kind.collection(namespace)).body(JSON, object);
            (create, kind.plural)
        })
        .collect();
    // Few kinds in a sequence, so that its requests concern the same objects.
    let kinds: Vec<_> = (0..2)
        .map(|_| &KINDS[random.usize(..KINDS.len())])
        .collect();
    for _ in 0..random.usize(15..35) {
        let kind = kinds[random.usize(..kinds.len())];
        all.push((one(random, kind, namespace), kind.plural));
    }
    if random.u32(0..4) == 0 {
        all.push((
            Operation::new("DELETE", format!("/api/v1/namespaces/{namespace}")),
            "namespaces",
        ));
        all.push((create(random, &KINDS[0], namespace), KINDS[0].plural));
    }
    all.extend(KINDS.iter().map(|kind| {
        let path = format!("{}/{}", kind.collection(namespace), last(kind));
        let label = Operation::new("PATCH", path);
        (
            label.body(
                MERGE_PATCH,
                json!({"metadata": {"labels": {"last": "yes"}}}),
            ),
            kind.plural,
        )
    }));
    all
}

/// Generates one request about an object of this kind.
fn one(random: &mut Rng, kind: &Kind, namespace: &str) -> Operation {
    let name = name(random, kind, namespace);
    let path = format!("{}/{name}", kind.collection(namespace));
    match random.u32(0..30) {
        0..7 => create(random, kind, namespace),
        7 => Operation::new("GET", path),
        8 => with_header(Operation::new("GET", path), METADATA),
        9..12 => list(random, kind, namespace),
        12..17 => json_patch(random, kind, path, &name),
        17..21 => merge_patch(random, kind, path, &name),
        21..24 => put(random, kind, namespace, path, &name),
        24 => status(random, kind, path),
        25 if kind.plural == "pods" => bind(namespace, &path, &name),
        _ => delete(random, kind, path, &name),
    }
}

fn name(random: &mut Rng, kind: &Kind, namespace: &str) -> String {
    let letter = ["a", "b"][random.usize(..2)];
    if kind.namespaced {
        letter.to_owned()
    } else {
        format!("{namespace}-{letter}")
    }
}

fn with_header(mut operation: Operation, header: (&'static str, &'static str)) -> Operation {
    operation.headers.push(header);
    operation
}

fn maybe_dry(random: &mut Rng, operation: Operation) -> Operation {
    match random.u32(0..8) {
        0 => operation.query("dryRun=All"),
        _ => operation,
    }
}

fn object(kind: &Kind, namespace: &str, name: &str) -> Value {
    let mut object = json!({
        "apiVersion": kind.version, "kind": kind.kind,
        "metadata": {"name": name, "labels": {"sequence": namespace}},
    });
    let size = json!({"storage": "1Gi"});
    match kind.plural {
        "configmaps" => object["data"] = json!({"key": "value"}),
        "persistentvolumeclaims" => {
            object["spec"] = json!({"accessModes": ["ReadWriteOnce"], "storageClassName": "none", "resources": {"requests": size}});
        }
        "persistentvolumes" => {
            object["spec"] = json!({
                "accessModes": ["ReadWriteOnce"], "storageClassName": "none", "capacity": size,
                "csi": {"driver": "none", "volumeHandle": name},
            });
        }
        "pods" => {
            object["spec"] = json!({"containers": [{"name": "main", "image": "main"}], "terminationGracePeriodSeconds": 5})
        }
        _ => object["spec"] = json!({"holderIdentity": "holder", "leaseDurationSeconds": 15}),
    }
    object
}

fn create(random: &mut Rng, kind: &Kind, namespace: &str) -> Operation {
    let name = name(random, kind, namespace);
    let mut object = object(kind, namespace, &name);
    match random.u32(0..12) {
        0 => object["metadata"]["finalizers"] = json!(["example.com/a", "example.com/b"]),
        1 => {
            object["metadata"]["ownerReferences"] =
                json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "a", "uid": "1"}])
        }
        2 => {
            object["metadata"]["ownerReferences"] =
                json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "a", "uid": ""}])
        }
        4 => object["metadata"]["namespace"] = "elsewhere".into(),
        5 => object["metadata"]["resourceVersion"] = "1".into(),
        6 if kind.plural.starts_with("persistent") => object["status"] = json!({"phase": "Bound"}),
        7 => object["metadata"]["labels"]["other"] = "yes".into(),
        _ => {}
    }
    let operation = Operation::new("POST", kind.collection(namespace)).body(JSON, object);
    maybe_dry(random, operation)
}

fn list(random: &mut Rng, kind: &Kind, namespace: &str) -> Operation {
    let selector = format!("labelSelector=sequence={namespace}");
    let list = Operation::new("GET", kind.collection(namespace));
    match random.u32(0..6) {
        // The pages of a cluster-scoped kind end where objects of other sequences follow.
        0 if kind.namespaced => list.query(format!("{selector}&limit=1")),
        1 => with_header(list.query(selector), METADATA_LIST),
        2 => list.query(format!("{selector},other")),
        3 => list.query(format!("{selector},other!=yes")),
        4 => list.query(format!(
            "{selector}&fieldSelector=metadata.name={}",
            name(random, kind, namespace)
        )),
        _ => list.query(selector),
    }
}

fn json_patch(random: &mut Rng, kind: &Kind, path: String, name: &str) -> Operation {
    let plural = kind.plural;
    let uid =
        json!({"op": "test", "path": "/metadata/uid", "value": format!("{{uid:{plural}/{name}}}")});
    let version = json!({"op": "test", "path": "/metadata/resourceVersion", "value": format!("{{version:{plural}/{name}}}")});
    let change = match random.u32(0..6) {
        0 => json!({"op": "add", "path": "/metadata/annotations", "value": {"key": "value"}}),
        1 => json!({"op": "remove", "path": "/metadata/finalizers/0"}),
        2 => json!({"op": "add", "path": "/metadata/finalizers/-", "value": "example.com/c"}),
        3 => json!({"op": "add", "path": "/metadata/finalizers", "value": ["example.com/a"]}),
        4 => json!({"op": "remove", "path": "/metadata/labels/other"}),
        _ => json!({"op": "replace", "path": "/metadata/labels/other", "value": "no"}),
    };
    let operations = match random.u32(0..5) {
        0 => json!([{"op": "test", "path": "/metadata/uid", "value": "another"}, change]),
        1 => json!([change]),
        2 => json!([uid, change]),
        _ => json!([uid, version, change]),
    };
    let patch = Operation::new("PATCH", path).body(JSON_PATCH, operations);
    let patch = maybe_dry(random, patch);
    if random.bool() {
        with_header(patch, METADATA)
    } else {
        patch
    }
}

fn merge_patch(random: &mut Rng, kind: &Kind, path: String, name: &str) -> Operation {
    let stale = format!("{{first-version:{}/{name}}}", kind.plural);
    let patch = match random.u32(0..9) {
        0 => json!({"metadata": {"finalizers": null}}),
        1 => json!({"metadata": {"finalizers": ["example.com/a"]}}),
        2 => json!({"metadata": {"labels": {"other": "yes"}}}),
        3 => json!({"metadata": {"labels": {"other": null}}}),
        4 => json!({"metadata": {"resourceVersion": stale, "labels": {"other": "late"}}}),
        5 => json!({"metadata": {"uid": "another"}}),
        6 => json!({"metadata": {"name": "another"}}),
        7 => json!({"metadata": {"deletionTimestamp": null, "annotations": {"key": "again"}}}),
        _ => spec_change(kind),
    };
    let operation = Operation::new("PATCH", path).body(MERGE_PATCH, patch);
    maybe_dry(random, operation)
}

/// A change of the spec, which the API server refuses for some kinds.
fn spec_change(kind: &Kind) -> Value {
    match kind.plural {
        "configmaps" => json!({"data": {"key": "another"}}),
        "persistentvolumeclaims" => json!({"spec": {"storageClassName": "another"}}),
        "persistentvolumes" => json!({"spec": {"persistentVolumeReclaimPolicy": "Delete"}}),
        "pods" => json!({"metadata": {"annotations": {"key": "of a pod"}}}),
        _ => json!({"spec": {"holderIdentity": "another"}}),
    }
}

fn put(random: &mut Rng, kind: &Kind, namespace: &str, path: String, name: &str) -> Operation {
    let mut object = object(kind, namespace, name);
    let plural = kind.plural;
    if plural == "pods" || plural.starts_with("persistent") {
        // A replacement without the defaults of the present object is refused for its spec.
        return Operation::new("GET", path);
    }
    let choice = random.u32(0..4);
    let wrong_uid = choice == 2;
    match choice {
        0 => object["metadata"]["resourceVersion"] = format!("{{version:{plural}/{name}}}").into(),
        1 => {
            object["metadata"]["resourceVersion"] =
                format!("{{first-version:{plural}/{name}}}").into()
        }
        // For a Lease the answer quotes the key in etcd.
        2 if plural != "leases" => object["metadata"]["uid"] = "another".into(),
        _ => object["metadata"]["labels"]["other"] = "put".into(),
    }
    let put = Operation::new("PUT", path).body(JSON, object);
    match plural {
        // A dry run that creates a Lease answers with the resourceVersion of the request, and one
        // with a wrong uid quotes another key of etcd.
        "leases" => put,
        _ if wrong_uid => put,
        _ => maybe_dry(random, put),
    }
}

fn status(random: &mut Rng, kind: &Kind, path: String) -> Operation {
    let phases: &[&str] = match kind.plural {
        "persistentvolumeclaims" => &["Bound", "Lost"],
        "persistentvolumes" => &["Available", "Released"],
        "pods" => &["Running", "Succeeded"],
        _ => &["None"],
    };
    let phase = phases[random.usize(..phases.len())];
    let patch =
        json!({"status": {"phase": phase}, "metadata": {"annotations": {"with": "status"}}});
    Operation::new("PATCH", format!("{path}/status")).body(MERGE_PATCH, patch)
}

fn bind(namespace: &str, path: &str, name: &str) -> Operation {
    let binding = json!({
        "apiVersion": "v1", "kind": "Binding", "metadata": {"name": name, "namespace": namespace},
        "target": {"apiVersion": "v1", "kind": "Node", "name": "node"},
    });
    Operation::new("POST", format!("{path}/binding")).body(JSON, binding)
}

fn delete(random: &mut Rng, kind: &Kind, path: String, name: &str) -> Operation {
    let object = format!("{}/{name}", kind.plural);
    let options = match random.u32(0..10) {
        0 => json!({"preconditions": {"uid": "another"}}),
        1 => json!({"preconditions": {"uid": format!("{{uid:{object}}}")}}),
        2 => json!({"preconditions": {"resourceVersion": format!("{{first-version:{object}}}")}}),
        3 => {
            json!({"preconditions": {"uid": format!("{{uid:{object}}}"), "resourceVersion": format!("{{version:{object}}}")}})
        }
        4 => json!({"propagationPolicy": "Foreground"}),
        5 => json!({"propagationPolicy": "Orphan"}),
        6 => json!({"gracePeriodSeconds": SECONDS[random.usize(..SECONDS.len())]}),
        7 => json!({"dryRun": ["All"]}),
        _ => json!({}),
    };
    Operation::new("DELETE", path).body(JSON, options)
}
