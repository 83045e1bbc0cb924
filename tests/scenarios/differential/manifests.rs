//! The plain objects of scenarios.

use super::scenario::Object;
use crate::{
    pvc_retention::{self, support::RETAIN_RETAIN},
    support::{claim, pod, volume},
};
use anyhow::Result;
use serde_json::{Value, json};

/// Placeholder in manifests for the scenario's namespace, whose name differs on each cluster.
pub const NAMESPACE: &str = "$NAMESPACE";

/// A plain object with `changes` merged over it. Volumes have the class of their scenario, and
/// claims a class without volumes, so that the binder binds no unrelated objects.
pub fn manifest(object: Object, changes: &Value) -> Result<Value> {
    let class = |name: &str| json!({"spec": {"storageClassName": name}});
    let mut manifest = match object {
        Object::Claim(name) => serde_json::to_value(claim(name, class("absent"))?)?,
        Object::ConfigMap(name) => json!({"metadata": {"name": name}}),
        Object::Pod(name) => serde_json::to_value(pod(name, "data", json!({}))?)?,
        Object::Set(name) => set(name)?,
        Object::Volume(name) => {
            serde_json::to_value(volume(&format!("{name}-{NAMESPACE}"), class(NAMESPACE))?)?
        }
    };
    json_patch::merge(&mut manifest, changes);
    Ok(manifest)
}

/// A StatefulSet with one pod, one claim template `data`, and no retention policy.
pub fn set(name: &str) -> Result<Value> {
    let no_policy = json!({"spec": {"persistentVolumeClaimRetentionPolicy": null}});
    let set = pvc_retention::support::set(name, 1, RETAIN_RETAIN, no_policy)?;
    Ok(serde_json::to_value(set)?)
}
