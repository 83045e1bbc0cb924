//! The PV controller with a provisioner: binds claims and volumes, and reclaims volumes.

use super::{Call, Controller};
use crate::{
    cluster::Cluster,
    json::{at, is_deleting, name, namespace, text, uid},
    view::View,
};
use serde_json::{Value, json};

/// The annotation of a volume that a provisioner created.
const PROVISIONED_BY: &str = "pv.kubernetes.io/provisioned-by";

/// The PV controller.
pub struct Binder;

impl Controller for Binder {
    const NAME: &'static str = "pv-controller";
    const USER: &'static str = "system:serviceaccount:kube-system:persistent-volume-binder";
    const KINDS: &'static [&'static str] = &["persistentvolumeclaims", "persistentvolumes"];

    fn act(&mut self, view: &View, live: &Cluster, _: u64) -> Vec<Call> {
        let volumes = view
            .all("persistentvolumes")
            .filter_map(|volume| of_volume(view, live, volume));
        let mut calls: Vec<Call> = volumes.collect();
        let mut taken = Vec::new();
        for claim in view.all("persistentvolumeclaims") {
            calls.extend(of_claim(view, claim, &mut taken));
        }
        calls
    }
}

/// The next request about a volume.
fn of_volume(view: &View, live: &Cluster, volume: &Value) -> Option<Call> {
    let path = path(volume);
    let phase = text(volume, "/status/phase");
    let (namespace, claim) = (
        text(volume, "/spec/claimRef/namespace"),
        text(volume, "/spec/claimRef/name"),
    );
    let wanted = text(volume, "/spec/claimRef/uid");
    if claim.is_empty() || wanted.is_empty() {
        return (phase != "Available").then(|| set_phase(&path, volume, "Available"));
    }
    let is_there = |claim: &Value| uid(claim) == wanted;
    if let Some(claim) = view
        .get("persistentvolumeclaims", namespace, claim)
        .filter(|claim| is_there(claim))
    {
        let bound_to = text(claim, "/spec/volumeName");
        if !bound_to.is_empty() && bound_to != name(volume) {
            return not_needed(&path, volume);
        }
        let bound = bound_to == name(volume);
        return (bound && phase != "Bound").then(|| set_phase(&path, volume, "Bound"));
    }
    // Source: `syncVolume` of `pkg/controller/volume/persistentvolume`: it reads the claim live
    // before it releases the volume.
    let found = live.server.get("persistentvolumeclaims", namespace, claim);
    if found.is_some_and(|claim| is_there(&claim)) {
        return None;
    }
    if phase != "Released" {
        return Some(set_phase(&path, volume, "Released"));
    }
    let deletes = text(volume, "/spec/persistentVolumeReclaimPolicy") == "Delete";
    (deletes && !is_deleting(volume)).then(|| Call::delete(path, uid(volume)))
}

/// The next request about a volume whose claim was bound to another one. A volume that was
/// provisioned for the claim and has the policy Delete is deleted.
///
/// Source: `syncVolume` of `pkg/controller/volume/persistentvolume`.
fn not_needed(path: &str, volume: &Value) -> Option<Call> {
    let annotations = at(volume, "/metadata/annotations");
    let provisioned = annotations.is_some_and(|all| all.get(PROVISIONED_BY).is_some());
    let deletes = text(volume, "/spec/persistentVolumeReclaimPolicy") == "Delete";
    if !(provisioned && deletes) {
        return Some(Call::replace(path.to_owned(), unbound(volume)));
    }
    match text(volume, "/status/phase") {
        "Released" if is_deleting(volume) => None,
        "Released" => Some(Call::delete(path.to_owned(), uid(volume))),
        _ => Some(set_phase(path, volume, "Released")),
    }
}

/// The volume without its reference to the claim, which was bound to another volume.
///
/// Source: `unbindVolume` of `pkg/controller/volume/persistentvolume`: a volume that a user
/// reserved stays reserved by name.
fn unbound(volume: &Value) -> Value {
    const BY_CONTROLLER: &str = "pv.kubernetes.io/bound-by-controller";
    let mut unbound = volume.clone();
    let annotations = unbound["metadata"]["annotations"].as_object_mut();
    let by_controller = annotations.and_then(|all| all.remove(BY_CONTROLLER));
    match (by_controller, unbound["spec"].as_object_mut()) {
        (Some(_), Some(spec)) => {
            spec.remove("claimRef");
        }
        _ => {
            let reference = unbound["spec"]["claimRef"].as_object_mut();
            reference.map(|reference| reference.remove("uid"));
        }
    }
    unbound
}

/// The next request about a claim.
fn of_claim(view: &View, claim: &Value, taken: &mut Vec<String>) -> Option<Call> {
    if is_deleting(claim) && text(claim, "/spec/volumeName").is_empty() {
        return None;
    }
    let bound_to = text(claim, "/spec/volumeName");
    if !bound_to.is_empty() {
        let volume = view.get("persistentvolumes", "", bound_to)?;
        if is_free_for(volume, claim) {
            return Some(Call::replace(path(volume), with_claim(volume, claim)));
        }
        let bound = text(volume, "/spec/claimRef/uid") == uid(claim)
            && text(claim, "/status/phase") != "Bound";
        let path = format!("{}/status", claim_path(claim));
        return bound.then(|| {
            Call::merge(
                path,
                json!({"metadata": {"uid": uid(claim)}, "status": {"phase": "Bound"}}),
            )
        });
    }
    let reserved = |volume: &&std::sync::Arc<Value>| is_reserved_for(volume, claim);
    if let Some(volume) = view.all("persistentvolumes").find(reserved) {
        return Some(Call::replace(path(volume), with_claim(volume, claim)));
    }
    let mine = |volume: &&std::sync::Arc<Value>| text(volume, "/spec/claimRef/uid") == uid(claim);
    if let Some(volume) = view.all("persistentvolumes").find(mine) {
        // Source: `bind` of `pkg/controller/volume/persistentvolume` writes the phase of the volume
        // before the claim.
        if text(volume, "/status/phase") != "Bound" {
            return Some(set_phase(&path(volume), volume, "Bound"));
        }
        let mut bound = claim.clone();
        bound["spec"]["volumeName"] = name(volume).into();
        bound["metadata"]["annotations"]["pv.kubernetes.io/bind-completed"] = "yes".into();
        return Some(Call::replace(claim_path(claim), bound));
    }
    if let Some(volume) = view
        .all("persistentvolumes")
        .find(|volume| fits(volume, claim, taken))
    {
        taken.push(name(volume).to_owned());
        let mut reserved = with_claim(volume, claim);
        reserved["metadata"]["annotations"]["pv.kubernetes.io/bound-by-controller"] = "yes".into();
        return Some(Call::replace(path(volume), reserved));
    }
    Some(Call::create(
        "/api/v1/persistentvolumes",
        provisioned(claim),
    ))
}

/// Whether a claim that names the volume may be bound to it.
///
/// Source: `syncUnboundClaim` of `pkg/controller/volume/persistentvolume`.
fn is_free_for(volume: &Value, claim: &Value) -> bool {
    let unclaimed = at(volume, "/spec/claimRef/name").is_none() && !is_deleting(volume);
    unclaimed || is_reserved_for(volume, claim)
}

fn is_reserved_for(volume: &Value, claim: &Value) -> bool {
    text(volume, "/spec/claimRef/uid").is_empty()
        && text(volume, "/spec/claimRef/namespace") == namespace(claim)
        && text(volume, "/spec/claimRef/name") == name(claim)
        && !is_deleting(volume)
}

fn with_claim(volume: &Value, claim: &Value) -> Value {
    let mut bound = volume.clone();
    bound["spec"]["claimRef"] = reference(claim);
    bound
}

fn fits(volume: &Value, claim: &Value, taken: &[String]) -> bool {
    text(volume, "/spec/storageClassName") == text(claim, "/spec/storageClassName")
        && text(volume, "/status/phase") == "Available"
        && at(volume, "/spec/claimRef/name").is_none()
        && !is_deleting(volume)
        && !taken.iter().any(|taken| taken == name(volume))
}

fn provisioned(claim: &Value) -> Value {
    let class = text(claim, "/spec/storageClassName");
    // Each class of the simulation has the name of its reclaim policy.
    let policy = if class == "retain" {
        "Retain"
    } else {
        "Delete"
    };
    json!({
        "apiVersion": "v1", "kind": "PersistentVolume",
        "metadata": {"name": format!("pvc-{}", uid(claim)), "annotations": {PROVISIONED_BY: "sim"}},
        "spec": {
            "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": class,
            "persistentVolumeReclaimPolicy": policy, "claimRef": reference(claim),
            "csi": {"driver": "sim", "volumeHandle": uid(claim)},
        },
    })
}

fn reference(claim: &Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": namespace(claim), "name": name(claim),
        "uid": uid(claim), "resourceVersion": text(claim, "/metadata/resourceVersion"),
    })
}

fn set_phase(path: &str, volume: &Value, phase: &str) -> Call {
    let patch = json!({
        "metadata": {"resourceVersion": text(volume, "/metadata/resourceVersion")}, "status": {"phase": phase},
    });
    Call::merge(format!("{path}/status"), patch)
}

fn path(volume: &Value) -> String {
    format!("/api/v1/persistentvolumes/{}", name(volume))
}

fn claim_path(claim: &Value) -> String {
    format!(
        "/api/v1/namespaces/{}/persistentvolumeclaims/{}",
        namespace(claim),
        name(claim)
    )
}
