//! The plain objects of scenarios.

use super::scenario::Object;
use crate::{
    pvc_retention::{self, support::RETAIN_RETAIN},
    support::{claim, pod, volume},
};
use anyhow::Result;
use serde_json::{Value, json};

/// Stands in manifests for the scenario's namespace, which has another name on each cluster.
pub const NAMESPACE: &str = "$NAMESPACE";

/// Volumes have a class of their scenario's own and claims one that no volume has, so that the binder brings no strangers together.
pub fn manifest(object: Object, changes: &Value) -> Result<Value> {
    let class = |name: &str| json!({"spec": {"storageClassName": name}});
    let mut manifest = match object {
        Object::Claim(name) => serde_json::to_value(claim(name, class("nobody"))?)?,
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

/// One pod, one claim template `data`, and no policy.
pub fn set(name: &str) -> Result<Value> {
    let no_policy = json!({"spec": {"persistentVolumeClaimRetentionPolicy": null}});
    let set = pvc_retention::support::set(name, 1, RETAIN_RETAIN, no_policy)?;
    Ok(serde_json::to_value(set)?)
}
