//! Tests of pvc-trash: its rule as tables, and its reconciler with a simulated API server.

mod copies;
mod creation;
mod disabling;
mod events;
mod full;
mod lives;
mod moving;
mod patches;
mod purging;
mod rebinding;
mod rebinding_reviews;
mod reports;
mod restoring;
mod scene;

use super::rule::View;
use crate::objects::{
    Claim, ObjectName, Volume,
    claim::ClaimWire,
    trash::TRASH,
    undelete_window::{NamespaceWindow, Window},
    volume::VolumeWire,
};
use serde_json::{Value, json};
use std::time::Duration;

const FINALIZER: &str = "external-provisioner.volume.kubernetes.io/finalizer";
const HOUR: Duration = Duration::from_secs(3600);

/// A Bound volume of the claim `ns/data` with the uid 1 and the policy Delete, with `changes`
/// merged over it.
fn volume(changes: Value) -> Volume {
    let mut volume = json!({
        "metadata": {"name": "pv", "uid": "v", "resourceVersion": "7",
            "finalizers": ["kubernetes.io/pv-protection", FINALIZER, "external-attacher/csi"]},
        "spec": {"storageClassName": "fast", "persistentVolumeReclaimPolicy": "Delete",
            "capacity": {"storage": "1Gi"},
            "claimRef": {"namespace": "ns", "name": "data", "uid": "1"}},
        "status": {"phase": "Bound"},
    });
    json_patch::merge(&mut volume, &changes);
    let wire: VolumeWire = serde_json::from_value(volume).expect("a volume");
    wire.into()
}

/// The record of a volume of the claim with this uid.
fn record(uid: &str, changes: Value) -> Value {
    let mut record = json!({
        "policy": "Delete", "windowSeconds": 3600, "finalizers": [FINALIZER],
        "claim": {"namespace": "ns", "name": "data", "uid": uid, "namespaceUid": "n"},
    });
    json_patch::merge(&mut record, &changes);
    record
}

/// A volume of the policy Retain in this phase, with this record.
fn recorded(phase: &str, record: &Value) -> Volume {
    volume(json!({
        "metadata": {"annotations": {TRASH: record.to_string()}},
        "spec": {"persistentVolumeReclaimPolicy": "Retain"}, "status": {"phase": phase},
    }))
}

/// The claim `ns/data` with the uid 1, Bound, with `changes` merged over it.
fn claim(changes: Value) -> Claim {
    let mut claim = json!({
        "metadata": {"namespace": "ns", "name": "data", "uid": "1"},
        "spec": {"volumeName": "pv"}, "status": {"phase": "Bound"},
    });
    json_patch::merge(&mut claim, &changes);
    let wire: ClaimWire = serde_json::from_value(claim).expect("a claim");
    wire.into()
}

/// What the rule reads, in a class with a window of an hour.
fn view<'a>(volume: &'a Volume, claim: Option<&'a Claim>) -> View<'a> {
    View {
        volume,
        class: Some(Window::For(HOUR)),
        longest: None,
        namespace: NamespaceWindow::Unset,
        claim,
        excluded: false,
        full: false,
        requesting_claim: None,
    }
}

fn requesting_claim() -> ObjectName {
    ObjectName::new("ns", "again")
}
