//! The objects that users create.

use serde_json::{Value, json};
use volume_warden::objects::{rebind::REBIND, trash::UNDELETE};

/// The name of a StatefulSet, and of its template. The claims of the sets 3 and 4 have the same
/// names: `a-b-c-0`.
pub(super) fn set_name(set: u8) -> (String, &'static str) {
    match set {
        3 => ("c".into(), "a-b"),
        4 => ("b-c".into(), "a"),
        _ => (format!("set-{set}"), "data"),
    }
}

fn claim_spec(keeps: bool) -> Value {
    let class = if keeps { "retain" } else { "delete" };
    json!({"accessModes": ["ReadWriteOnce"], "storageClassName": class, "resources": {"requests": {"storage": "1Gi"}}})
}

/// A claim of a class whose volumes are kept or deleted; the releaser handles it if it is labelled.
pub(super) fn new_claim(claim: u8, keeps: bool, labelled: bool) -> Value {
    let labels = if labelled {
        json!({"reclaimable-pv-releaser.kubernetes.io/managed-by": "dynamic-reclaimable-pvc-controllers"})
    } else {
        json!({})
    };
    json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {"name": format!("claim-{claim}"), "namespace": "ns", "labels": labels}, "spec": claim_spec(keeps),
    })
}

/// A claim that may get the volume of the deleted claim of its name; with `off`, it gets a new one.
pub(super) fn created_again(claim: u8, namespace: &str, off: bool) -> Value {
    let mut created = new_claim(claim, false, false);
    created["metadata"]["namespace"] = namespace.into();
    if off {
        created["metadata"]["annotations"] = json!({REBIND: "off"});
    }
    created
}

/// A claim that requests the data of a deleted one by its name or by that of its volume. If the
/// user also names the volume in the spec, the webhook has nothing to add.
pub(super) fn restored(claim: u8, namespace: &str, requested: &str, volume: Option<&str>) -> Value {
    let spec = match volume {
        Some(volume) => {
            let mut spec = claim_spec(false);
            spec["volumeName"] = volume.into();
            spec
        }
        None => json!({}),
    };
    json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {"name": format!("claim-{claim}"), "namespace": namespace, "annotations": {UNDELETE: requested}},
        "spec": spec,
    })
}

/// A pod that uses a claim; it may finish, and it may name its node.
pub(super) fn new_pod(pod: u8, claim: u8, finishes: bool, on_node: bool) -> Value {
    let labels = if finishes {
        json!({"finishes": "yes"})
    } else {
        json!({})
    };
    let mut pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": format!("pod-{pod}"), "namespace": "ns", "labels": labels},
        "spec": {
            "containers": [{"name": "main", "image": "main"}], "terminationGracePeriodSeconds": 5,
            "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": format!("claim-{claim}")}}],
        },
    });
    if on_node {
        pod["spec"]["nodeName"] = "node".into();
    }
    pod
}

/// A pod that requests a claim by annotation.
pub(super) fn requesting(pod: u8, claim: u8) -> Value {
    let mut pod = new_pod(pod, claim, false, false);
    let template =
        json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "spec": claim_spec(true)});
    pod["metadata"]["annotations"] = json!({
        "dynamic-pvc-provisioner.kubernetes.io/data.enabled": "true",
        "dynamic-pvc-provisioner.kubernetes.io/data.pvc": template.to_string(),
    });
    pod
}

/// The retention policy of a StatefulSet (Delete if true).
pub(super) fn policy(deleted: bool, scaled: bool) -> Value {
    let policy = |deletes: bool| if deletes { "Delete" } else { "Retain" };
    json!({"whenDeleted": policy(deleted), "whenScaled": policy(scaled)})
}

/// A StatefulSet with these policies (Delete if true).
pub(super) fn new_set(set: u8, replicas: u8, deleted: bool, scaled: bool) -> Value {
    let (name, template) = set_name(set);
    let labels = json!({"app": name});
    json!({
        "apiVersion": "apps/v1", "kind": "StatefulSet",
        "metadata": {"name": name, "namespace": "ns"},
        "spec": {
            "replicas": replicas, "serviceName": "none", "selector": {"matchLabels": labels},
            "persistentVolumeClaimRetentionPolicy": policy(deleted, scaled),
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": "main"}]}},
            "volumeClaimTemplates": [{"metadata": {"name": template}, "spec": claim_spec(false)}],
        },
    })
}
