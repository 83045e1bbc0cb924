//! The ConfigMaps that Volume Warden writes.

use super::{ObjectName, keys::MANAGER};
use serde_json::{Value, json};

/// Returns the manifest of a ConfigMap of Volume Warden: with this label and `managed-by`, and with
/// `text` as the value of its only key.
pub fn manifest(name: &ObjectName, label: &str, key: &str, text: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "namespace": &*name.namespace,
            "name": &*name.name,
            "labels": {label: "true", MANAGER: "volume-warden"},
        },
        "data": {key: text},
    })
}
