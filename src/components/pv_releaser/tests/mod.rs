//! Tests of pv-releaser; PR-… are test cases of the specification.

mod association;
mod background;
mod crossing;
mod notices;
mod parking;
mod patches;
mod releasing;
mod reserving;
mod scene;
mod waking;

use super::{
    reservation::{Reservation, Verdict, decide_reservation},
    rule::{Attachment, Decision, LeaveReason, View, decide},
    *,
};
use crate::objects::{
    Claim, ManagedBy, StorageClass, Volume, claim::ClaimWire, managed_by::RELEASER_LABEL,
    volume::VolumeWire,
};
use serde_json::{Value, json};
use std::sync::LazyLock;

static US: LazyLock<String> = LazyLock::new(|| Options::default().id.to_string());

/// Options of an installation whose released volumes any claim may get.
fn cluster() -> Options {
    Options {
        release_scope: Some(Scope::Cluster),
        ..Options::default()
    }
}

/// A labelled volume whose claim is deleted, with these changes; `null` removes a field.
fn wire(changes: Value) -> Value {
    let wire = json!({
        "metadata": {"name": "pv", "uid": "pv-uid", "resourceVersion": "5", "labels": {RELEASER_LABEL: *US, "app": "x"},
            "annotations": {"pv.kubernetes.io/bound-by-controller": "yes", "other": "kept"}},
        "spec": {"claimRef": {"kind": "PersistentVolumeClaim", "namespace": "ns", "name": "data", "uid": "1", "resourceVersion": "3"},
            "persistentVolumeReclaimPolicy": "Retain", "storageClassName": "fast", "csi": {"driver": "d", "fieldFromTheFuture": 1}},
        "status": {"phase": "Released"},
    });
    changed(wire, changes)
}

fn changed(mut wire: Value, changes: Value) -> Value {
    json_patch::merge(&mut wire, &changes);
    wire
}

fn read(wire: Value) -> Volume {
    let wire: VolumeWire = serde_json::from_value(wire).expect("a volume");
    wire.into()
}

fn volume(changes: Value) -> Volume {
    read(wire(changes))
}

/// A volume without a label whose claim is deleted, with these changes.
fn unlabelled(changes: Value) -> Volume {
    let unlabelled = wire(json!({"metadata": {"labels": {RELEASER_LABEL: null}}}));
    read(changed(unlabelled, changes))
}

fn phase(phase: &str) -> Value {
    json!({"status": {"phase": phase}})
}

fn policy(policy: &str) -> Value {
    json!({"spec": {"persistentVolumeReclaimPolicy": policy}})
}

fn deleted() -> Value {
    json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}})
}

fn label(key: &str, value: &str) -> Value {
    json!({"metadata": {"labels": {key: value}}})
}

fn claim(uid: &str, labels: Value) -> Claim {
    let wire =
        json!({"metadata": {"name": "data", "namespace": "ns", "uid": uid, "labels": labels}});
    let wire: ClaimWire = serde_json::from_value(wire).expect("a claim");
    wire.into()
}

/// The objects other than the volume that the rule reads.
#[derive(Clone)]
struct Else {
    claim: Option<Claim>,
    recently_deleted: Option<ManagedBy>,
    class: Option<StorageClass>,
    watched: bool,
    excluded: bool,
    attachment: Attachment<()>,
}

/// No other object is known, and no attachment exists.
const NOTHING: Else = Else {
    claim: None,
    recently_deleted: None,
    class: None,
    watched: true,
    excluded: false,
    attachment: Attachment::Detached(()),
};

/// A claim with the name in `claimRef`.
fn known(uid: &str, labels: Value) -> Else {
    Else {
        claim: Some(claim(uid, labels)),
        ..NOTHING
    }
}

/// The deleted claim of the volume had these labels.
fn gone(labels: Value) -> Else {
    let labels = claim("1", labels).rare.managed_by.clone();
    Else {
        recently_deleted: labels.map(|labels| *labels),
        ..NOTHING
    }
}

/// The volume's class names this installation.
fn class(id: &str) -> Else {
    Else {
        class: Some(StorageClass {
            uid: "1".into(),
            controller_id: Some(id.into()),
            undelete_window: None,
            undelete_window_max: None,
            release_scope: None,
            expire_unused: None,
            rebind: None,
        }),
        ..NOTHING
    }
}

fn attached() -> Else {
    Else {
        attachment: Attachment::Attached,
        ..NOTHING
    }
}

/// The claims of the namespace in `claimRef` are not watched.
fn unwatched() -> Else {
    Else {
        watched: false,
        ..NOTHING
    }
}

fn decided(volume: &Volume, other: &Else, options: &Options) -> Decision<()> {
    let view = View {
        volume,
        watched: other.watched,
        excluded: other.excluded,
        claim: other.claim.as_ref(),
        recently_deleted: other.recently_deleted.as_ref(),
        class: other.class.as_ref(),
        attachment: other.attachment,
    };
    decide(&view, options)
}

/// Checks the decision about a volume and the other objects, row by row.
macro_rules! table {
    ($options:expr; $($row:literal: $volume:expr, $other:expr => $expected:expr;)+) => {
        $(assert_eq!(decided(&$volume, &$other, &$options), $expected, $row);)+
    };
}
use table;
