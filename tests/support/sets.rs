//! StatefulSets.

use anyhow::Result;
use k8s_openapi::api::apps::v1::StatefulSet;
use serde_json::{Value, json};

/// `whenDeleted` and `whenScaled`, in this order.
pub type Policy = (&'static str, &'static str);
pub const RETAIN_RETAIN: Policy = ("Retain", "Retain");
pub const RETAIN_DELETE: Policy = ("Retain", "Delete");
pub const DELETE_RETAIN: Policy = ("Delete", "Retain");
pub const DELETE_DELETE: Policy = ("Delete", "Delete");

/// A StatefulSet with one claim template, `data`, whose StorageClass does not exist, with `changes`
/// merged over it. Its pods have a node name, so they run with unbound claims.
pub fn set(name: &str, replicas: i32, policy: Policy, changes: Value) -> Result<StatefulSet> {
    let mut set = json!({
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas, "podManagementPolicy": "Parallel",
            "serviceName": name, "selector": {"matchLabels": {"app": name}},
            "persistentVolumeClaimRetentionPolicy": {"whenDeleted": policy.0, "whenScaled": policy.1},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {
                    "nodeName": "node-1", "terminationGracePeriodSeconds": 0,
                    "containers": [{"name": "main", "image": "main", "volumeMounts": [{"name": "data", "mountPath": "/data"}]}],
                },
            },
            "volumeClaimTemplates": [{
                "metadata": {"name": "data"},
                "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "absent", "resources": {"requests": {"storage": "1Gi"}}},
            }],
        },
    });
    json_patch::merge(&mut set, &changes);
    Ok(serde_json::from_value(set)?)
}
