//! Tests of what `drain` plans for volumes that pvc-trash keeps.

use super::{
    tests::{objects, only, taken},
    *,
};
use crate::{
    components::{pv_releaser::PvReleaser, pvc_expiry::PvcExpiry, pvc_trash::PvcTrash},
    objects::{
        Claim, ObjectName, Tracked, VolumeAttachment, VolumeSource, claim::ClaimWire,
        volume::ClaimRef,
    },
};
use serde_json::{Value, json};

const TRASH: &str = "volume-warden.dev/trash";
const PURGE: &str = "volume-warden.dev/purge";
const TOUCHED: &str = "volume-warden.dev/undelete-touched";

/// A volume of the claim `ns/c` with the uid 1 and this record, with changes.
fn kept(record: Value, changes: Value) -> Value {
    let mut written = json!({
        "policy": "Delete", "windowSeconds": 3600, "deletedAt": "2026-01-01T00:00:00Z",
        "claim": {"namespace": "ns", "name": "c", "uid": "1"},
    });
    json_patch::merge(&mut written, &record);
    let mut volume = json!({
        "metadata": {"annotations": {TRASH: written.to_string()}},
        "spec": {"claimRef": {"namespace": "ns", "name": "c", "uid": "1"},
            "persistentVolumeReclaimPolicy": "Retain"},
        "status": {"phase": "Bound"},
    });
    json_patch::merge(&mut volume, &changes);
    volume
}

fn left(volume: Value, claim: Value) -> Vec<String> {
    let plan = plan(&objects(&claim, &volume, &[]), &only(&PvcTrash));
    assert_eq!(plan.cleanups, [], "{volume}");
    plan.kept.iter().map(ToString::to_string).collect()
}

fn phase(phase: &str) -> Value {
    json!({"status": {"phase": phase}})
}

#[test]
fn a_bound_volume_gets_its_original_policy() {
    let marked = json!({"metadata": {"annotations": {PURGE: "1", "other": "x"}}});
    for (policy, marked) in [("Delete", marked), ("Retain", json!({}))] {
        let mut volume = kept(json!({"policy": policy}), marked);
        let plan = plan(&objects(&json!({}), &volume, &[]), &only(&PvcTrash));
        assert_eq!(plan.kept, [], "{policy}");
        let [cleanup] = plan.cleanups.as_slice() else {
            panic!("{:?}", plan.cleanups);
        };
        assert!(cleanup.deletes_copy, "its copy is deleted");
        let Some(Precondition::NotExpiring(claim)) = &cleanup.precondition else {
            panic!("the claim is read live: {:?}", cleanup.precondition);
        };
        assert_eq!(claim.name.to_string(), "ns/c");
        json_patch::patch(&mut volume, &cleanup.operations).expect("the patch applies");
        assert_eq!(volume["spec"]["persistentVolumeReclaimPolicy"], policy);
        let annotations = &volume["metadata"]["annotations"];
        assert_eq!(
            (&annotations[TRASH], &annotations[PURGE]),
            (&Value::Null, &Value::Null)
        );
    }
    let volume = kept(json!({}), json!({}));
    let announced =
        json!({"annotations": {"volume-warden.dev/expires-at": "2026-01-08T00:00:00Z"}});
    let both = DrainConfig {
        components: vec![&PvcTrash, &PvcExpiry],
        ..only(&PvcTrash)
    };
    for (config, left) in [(only(&PvcTrash), 1), (both, 0)] {
        let plan = plan(&objects(&announced, &volume, &[]), &config);
        assert_eq!(plan.kept.len(), left, "{:?}", plan.kept);
    }
    let other = plan(&objects(&json!({}), &volume, &[]), &only(&PvReleaser));
    assert_eq!((other.cleanups.len(), other.kept.len()), (0, 0));
}

/// With the policy Delete, the provisioner would delete the data of such a volume as soon as its
/// claim is deleted.
#[test]
fn a_bound_volume_without_a_living_claim_is_left() {
    let none = || json!({});
    let deleting = json!({"deletionTimestamp": "2026-01-01T00:00:00Z"});
    let going = json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}});
    let unreadable = json!({"metadata": {"annotations": {TRASH: "{}"}}});
    for (volume, claim, why) in [
        (
            kept(none(), none()),
            deleting,
            "its claim ns/c is being deleted",
        ),
        (
            kept(none(), none()),
            json!({"uid": "2"}),
            "its claim ns/c was deleted, or was not read",
        ),
        (kept(none(), going), none(), "it is being deleted"),
        (
            kept(none(), unreadable),
            none(),
            "its annotation volume-warden.dev/trash cannot be read",
        ),
    ] {
        assert_eq!(
            left(volume, claim),
            [format!(
                "volume v: what pvc-trash wrote is left, because {why}"
            )]
        );
    }
}

#[test]
fn volumes_in_the_trash_are_listed_and_left() {
    let released = |record| kept(record, phase("Released"));
    let requested =
        json!({"metadata": {"annotations": {PURGE: "1"}}, "status": {"phase": "Released"}});
    let of = "it is in the trash: the data of the deleted claim ns/c is kept";
    let limitless = "without limit if Volume Warden is uninstalled";
    for (volume, why) in [
        (
            released(json!({})),
            format!("{of} until 2026-01-01T01:00:00Z, or {limitless}"),
        ),
        (
            released(json!({"deletedAt": null})),
            format!("{of} until its undelete window ends, or {limitless}"),
        ),
        (
            released(json!({"policy": "Retain"})),
            format!("{of} without limit"),
        ),
        (
            kept(json!({}), requested),
            format!("{of} though its purge is requested"),
        ),
        (
            released(json!({"claim": {"uid": "2"}})),
            "it is Released, and its data is kept".to_owned(),
        ),
        (
            kept(
                json!({}),
                json!({"spec": {"claimRef": {"uid": null}}, "status": {"phase": "Available"}}),
            ),
            "it is not Bound, and Volume Warden may be restoring its data".to_owned(),
        ),
    ] {
        assert_eq!(
            left(volume, json!({})),
            [format!(
                "volume v: what pvc-trash wrote is left, because {why}"
            )]
        );
    }
    let purging = json!({"spec": {"persistentVolumeReclaimPolicy": "Delete"}, "status": {"phase": "Released"}});
    assert_eq!(
        left(kept(json!({}), purging), json!({})),
        [""; 0],
        "its provisioner deletes it"
    );
}

#[test]
fn a_claim_loses_the_mark_and_keeps_the_request_of_its_user() {
    let claim = json!({"annotations": {TOUCHED: "then", "volume-warden.dev/undelete": "c"}});
    let expected = [format!("c: annotation {TOUCHED}")];
    assert_eq!(taken(claim.clone(), json!({}), &only(&PvcTrash)), expected);
    assert_eq!(taken(claim, json!({}), &only(&PvReleaser)), [""; 0]);
}

fn purging() -> DrainConfig {
    DrainConfig {
        purge_trash: true,
        ..only(&PvcTrash)
    }
}

fn in_trash(record: Value, changes: Value) -> Value {
    let mut volume = kept(record, phase("Released"));
    json_patch::merge(&mut volume, &changes);
    volume
}

#[test]
fn a_volume_in_the_trash_is_purged_on_request() {
    let finalizer = "external-provisioner.volume.kubernetes.io/finalizer";
    let requested = json!({"metadata": {"annotations": {PURGE: "1"}}});
    for changes in [json!({}), requested] {
        let mut volume = in_trash(json!({"finalizers": [finalizer]}), changes);
        let objects = objects(&json!({"name": "other", "uid": "2"}), &volume, &[]);
        let plan = plan(&objects, &purging());
        assert_eq!(plan.kept, []);
        let [cleanup] = plan.cleanups.as_slice() else {
            panic!("{:?}", plan.cleanups);
        };
        let expected =
            "reclaim policy Retain (without it, the data of the deleted claim ns/c is deleted)";
        assert_eq!(cleanup.what, [expected]);
        assert!(cleanup.deletes_copy, "its copy is deleted");
        let Some(Precondition::Deleted(claim)) = &cleanup.precondition else {
            panic!("the claim is read live: {:?}", cleanup.precondition);
        };
        assert_eq!((&*claim.name.name, claim.uid.clone()), ("c", "1".into()));
        volume["metadata"]["finalizers"] = json!([]);
        json_patch::patch(&mut volume, &cleanup.operations).expect("the patch applies");
        assert_eq!(volume["spec"]["persistentVolumeReclaimPolicy"], "Delete");
        assert_eq!(volume["metadata"]["finalizers"], json!([finalizer]));
    }
}

#[test]
fn what_may_still_be_needed_is_not_purged() {
    let none = || json!({});
    let reserved = json!({"spec": {"claimRef": {"uid": null}}, "status": {"phase": "Available"}});
    let unreadable = json!({"metadata": {"annotations": {TRASH: "{}"}}});
    for volume in [
        in_trash(json!({"policy": "Retain"}), none()),
        in_trash(json!({"deletedAt": null}), none()),
        in_trash(json!({"claim": {"uid": "2"}}), none()),
        in_trash(none(), reserved),
        in_trash(none(), unreadable),
    ] {
        let plan = plan(&objects(&none(), &volume, &[]), &purging());
        assert_eq!((plan.cleanups.len(), plan.kept.len()), (0, 1), "{volume}");
    }
    let volume = in_trash(none(), none());
    let mut attached = objects(&none(), &volume, &[]);
    let attachment = VolumeAttachment {
        volume: ObjectName::cluster_scoped("v"),
        node: "n7".into(),
    };
    attached
        .attachments
        .put(ObjectName::cluster_scoped("a"), Some(attachment.into()));
    let kept = |objects: &ClusterObjects| {
        let plan = plan(objects, &purging());
        assert_eq!((plan.cleanups.len(), plan.kept.len()), (0, 1));
        plan.kept[0].why.clone()
    };
    let why = kept(&attached);
    assert!(why.contains("attached to the node n7"), "{why}");
    let mut shared = objects(&none(), &volume, &[]);
    for name in ["v", "copy"] {
        let source = json!({"metadata": {}, "spec": {"nfs": {"server": "s", "path": "/p"}}});
        let source = VolumeSource::track(serde_json::from_value(source).expect("readable"));
        let source = source.map(Into::into);
        shared.sources.put(ObjectName::cluster_scoped(name), source);
    }
    let why = kept(&shared);
    assert!(why.contains("the volume copy has the same data"), "{why}");
    let claim: ClaimWire = serde_json::from_value(json!({
        "metadata": {"name": "again", "namespace": "ns", "uid": "3"}, "spec": {"volumeName": "v"},
    }))
    .expect("readable");
    let requested = objects(&none(), &volume, &[]);
    requested.caches.claims.deliver(claim, true);
    let why = kept(&requested);
    assert!(why.contains("the claim ns/again requests"), "{why}");
}

#[test]
fn only_the_claim_itself_lives() {
    let claim = ClaimRef {
        name: ObjectName::new("ns", "c"),
        uid: "1".into(),
        resource_version: None,
    };
    let staying = Precondition::NotExpiring(claim.clone());
    let (living, gone) = (
        Precondition::Exists(claim.clone()),
        Precondition::Deleted(claim),
    );
    let read = |metadata: Value| -> Claim {
        let wire: ClaimWire =
            serde_json::from_value(json!({"metadata": metadata})).expect("a claim");
        wire.into()
    };
    let lives = |found: Value| {
        let found = read(found);
        assert!(!living.is_met_by(Some(&found)) || !gone.is_met_by(Some(&found)));
        living.is_met_by(Some(&found))
    };
    assert!(lives(json!({"uid": "1"})));
    assert!(!lives(json!({"uid": "2"})));
    assert!(!lives(
        json!({"uid": "1", "deletionTimestamp": "2026-01-01T00:00:00Z"})
    ));
    assert!(!living.is_met_by(None) && gone.is_met_by(None));
    let going = json!({"uid": "1", "deletionTimestamp": "2026-01-01T00:00:00Z"});
    assert!(!gone.is_met_by(Some(&read(going))));
    let announced = json!({"uid": "1",
        "annotations": {"volume-warden.dev/expires-at": "2026-01-08T00:00:00Z"}});
    assert!(lives(announced.clone()));
    assert!(!staying.is_met_by(Some(&read(announced))));
    assert!(staying.is_met_by(Some(&read(json!({"uid": "1"})))));
}
