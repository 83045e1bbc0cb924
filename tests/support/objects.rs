//! The claims, pods and volumes that the scenarios create.

use anyhow::Result;
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, Pod};
use kube::api::PostParams;
use serde_json::{Value, json};

/// Parameters of a create request that is not stored.
pub fn dry_run() -> PostParams {
    PostParams {
        dry_run: true,
        ..PostParams::default()
    }
}

/// A claim of a class that no volume has, so that no volume of another scenario is bound to it,
/// with `changes` merged over it.
pub fn claim(name: &str, changes: Value) -> Result<PersistentVolumeClaim> {
    merged(
        json!({
            "metadata": {"name": name},
            "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "absent", "resources": {"requests": {"storage": "1Gi"}}},
        }),
        changes,
    )
}

/// Changes to a claim for tests with very many claims: the claim names a volume that does not
/// exist. About each pending claim without a volume name, kube-controller-manager publishes an
/// Event repeatedly.
pub fn of_no_volume() -> Value {
    json!({"spec": {"volumeName": "absent"}})
}

/// A pod with one claim, with `changes` merged over it.
pub fn pod(name: &str, claim: &str, changes: Value) -> Result<Pod> {
    merged(
        json!({
            "metadata": {"name": name},
            "spec": {
                "containers": [{"name": "main", "image": "main"}],
                "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}],
            },
        }),
        changes,
    )
}

/// A volume in a directory, without a class, with the reclaim policy Retain, with `changes` merged
/// over it.
pub fn volume(name: &str, changes: Value) -> Result<PersistentVolume> {
    merged(
        json!({
            "metadata": {"name": name},
            "spec": {
                "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}, "persistentVolumeReclaimPolicy": "Retain",
                "hostPath": {"path": format!("/tmp/{name}")},
            },
        }),
        changes,
    )
}

fn merged<K: serde::de::DeserializeOwned>(mut object: Value, changes: Value) -> Result<K> {
    json_patch::merge(&mut object, &changes);
    Ok(serde_json::from_value(object)?)
}

/// Changes that put a pod on a node, so that it needs no scheduler.
pub fn on_node() -> Value {
    json!({"spec": {"nodeName": "node-1"}})
}
