//! Translates the decisions about a volume into JSON patch operations, and into writes.

use super::{Mode, Options, Scope};
use crate::cluster::{Action, Basis, Lane, OnRefusal};
use crate::objects::{
    ControllerId, ObjectName, Volume,
    managed_by::{LEGACY_LABEL, RELEASER_LABEL},
    patch::{add, add_at, remove, remove_at},
    reuse::{CLAIM_NAMESPACE, RESERVED_AT, Record, parked_name},
    volume::BOUND_BY_CONTROLLER,
};
use json_patch::PatchOperation;
use k8s_openapi::jiff::Timestamp;
use serde_json::json;

const CLAIM_REF: [&str; 2] = ["spec", "claimRef"];

/// The operations that label the volume as managed. The volume must not have the label yet.
pub fn association(volume: &Volume, id: &ControllerId) -> Vec<PatchOperation> {
    vec![if volume.labelled {
        add(&["labels", RELEASER_LABEL], json!(id.as_str()))
    } else {
        add(&["labels"], json!({RELEASER_LABEL: id.as_str()}))
    }]
}

/// The operations that record the namespace of the claim that the volume is or was bound to, and
/// remove the time of its reservation.
pub fn record(volume: &Volume, record: &Record) -> Vec<PatchOperation> {
    let value = json!(record.to_string());
    let written = if volume.annotated {
        add(&["annotations", CLAIM_NAMESPACE], value)
    } else {
        add(&["annotations"], json!({CLAIM_NAMESPACE: value}))
    };
    [written].into_iter().chain(unreserved(volume)).collect()
}

/// The operations that release the volume from its claim to this scope. The volume must have a
/// `claimRef`. For [`Scope::Namespace`], it must have a record of the claim's namespace, too.
pub fn release(volume: &Volume, scope: Scope, options: &Options) -> Vec<PatchOperation> {
    let mut operations = freed(volume, scope, options);
    if scope == Scope::Cluster && volume.record().is_some() {
        operations.push(remove(&["annotations", CLAIM_NAMESPACE]));
    }
    operations.extend(unreserved(volume));
    if !options.disable_automatic_association {
        operations.extend(unlabelled(volume, options));
    }
    if volume.bound_by_controller {
        operations.push(remove(&["annotations", BOUND_BY_CONTROLLER]));
    }
    operations
}

/// The operations that park the volume: its `claimRef` names a claim that cannot exist, until it is
/// reserved for the next claim of the recorded namespace.
pub fn park(volume: &Volume, options: &Options) -> Vec<PatchOperation> {
    let parked = parked_name(&options.system_namespace, &volume.uid);
    let parked = reference(&parked);
    [parked].into_iter().chain(unreserved(volume)).collect()
}

/// The operations that reserve a parked volume for the claim of this name.
pub fn reservation(claim: &ObjectName, now: Timestamp) -> Vec<PatchOperation> {
    let now = json!(now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string());
    vec![reference(claim), add(&["annotations", RESERVED_AT], now)]
}

/// The operation that writes a `claimRef` without uid: only a claim of this name can be bound to
/// the volume.
fn reference(claim: &ObjectName) -> PatchOperation {
    let reference = json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": *claim.namespace, "name": *claim.name,
    });
    add_at(&CLAIM_REF, reference)
}

fn unreserved(volume: &Volume) -> Option<PatchOperation> {
    volume.reserved_at()?;
    Some(remove(&["annotations", RESERVED_AT]))
}

fn freed(volume: &Volume, scope: Scope, options: &Options) -> Vec<PatchOperation> {
    let [spec, claim_ref] = CLAIM_REF;
    let versioned = volume
        .claim_ref
        .as_ref()
        .is_some_and(|claim| claim.resource_version.is_some());
    match (options.release_mode, scope) {
        (Mode::Full, Scope::Cluster) => vec![remove_at(&CLAIM_REF)],
        (Mode::Full, Scope::Namespace) => {
            vec![reference(&parked_name(
                &options.system_namespace,
                &volume.uid,
            ))]
        }
        (Mode::Soft, _) => {
            let uid = remove_at(&[spec, claim_ref, "uid"]);
            let version = versioned.then(|| remove_at(&[spec, claim_ref, "resourceVersion"]));
            [uid].into_iter().chain(version).collect()
        }
    }
}

fn unlabelled(volume: &Volume, options: &Options) -> Vec<PatchOperation> {
    let labels = volume.managed_by.as_deref();
    let has_label = labels.is_some_and(|labels| labels.releaser.is_some());
    let has_legacy = labels.is_some_and(|labels| labels.legacy.is_some());
    let label = has_label.then(|| remove(&["labels", RELEASER_LABEL]));
    let legacy = (has_legacy && options.legacy_label).then(|| remove(&["labels", LEGACY_LABEL]));
    label.into_iter().chain(legacy).collect()
}

/// An action for which a reconciler publishes an Event if the API server refuses the write (4xx) or
/// fails (5xx), as plumber-cd's releaser does.
pub(super) fn action(
    name: &'static str,
    on_refusal: OnRefusal,
    operations: Vec<PatchOperation>,
    basis: Basis,
) -> Action {
    let on_refusal = OnRefusal {
        outages: true,
        ..on_refusal
    };
    Action::patch(name, Lane::Release, operations, basis, on_refusal)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::components::pv_releaser::reasons::CANNOT_RELEASE;

    #[test]
    fn releases_use_their_own_lane_and_report_outages() {
        let refusal = OnRefusal::new(CANNOT_RELEASE);
        let action = action("Release", refusal, Vec::new(), Basis::Object);
        let (_, lane, on_refusal) = action.parts();
        assert_eq!((lane, on_refusal.outages), (Lane::Release, true));
    }
}
