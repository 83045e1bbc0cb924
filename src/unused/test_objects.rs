//! Objects for tests of the reports.

use crate::objects::{Pod, Workload, pod::PodWire, workload::WorkloadWire};
use kube::Resource;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// Parses an API object from JSON, and panics if that fails.
pub(crate) fn read<K: DeserializeOwned>(value: Value) -> K {
    serde_json::from_value(value).expect("an object")
}

/// A bound claim of 10 GiB that has been unused since 2026-01-01, with these changes.
pub(crate) fn claim(name: &str, changes: Value) -> Value {
    let mut claim = json!({
        "metadata": {"namespace": "shop", "name": name},
        "spec": {"storageClassName": "fast", "volumeName": format!("pv-{name}"),
            "resources": {"requests": {"storage": "5Gi"}}},
        "status": {"phase": "Bound", "capacity": {"storage": "10Gi"}, "conditions": [
            {"type": "Unused", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}]},
    });
    json_patch::merge(&mut claim, &changes);
    claim
}

/// A pod that names the claim and has this phase, together with its namespace.
pub(crate) fn pod(name: &str, claim: &str, phase: &str) -> (String, Pod) {
    let volume = json!({"name": "v", "persistentVolumeClaim": {"claimName": claim}});
    let pod: PodWire = read(
        json!({"metadata": {"namespace": "shop", "name": name, "uid": name},
        "spec": {"volumes": [volume], "containers": []}, "status": {"phase": phase}}),
    );
    ("shop".to_owned(), pod.into())
}

/// A volume of 1 TiB in this phase, with these changes.
pub(crate) fn volume(name: &str, phase: &str, changes: Value) -> Value {
    let mut volume = json!({
        "metadata": {"name": name},
        "spec": {"capacity": {"storage": "1Ti"}, "storageClassName": "slow", "persistentVolumeReclaimPolicy": "Retain",
            "claimRef": {"namespace": "shop", "name": format!("of-{name}"), "uid": "1"}},
        "status": {"phase": phase, "lastPhaseTransitionTime": "2026-01-02T00:00:00Z"},
    });
    json_patch::merge(&mut volume, &changes);
    volume
}

/// A workload of the kind `K`, from its JSON.
pub(crate) fn workload<K: Resource<DynamicType = ()>>(value: Value) -> Workload {
    read::<WorkloadWire<K>>(value).into()
}
