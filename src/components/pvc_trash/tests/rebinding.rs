//! Tests of the rule for rebinding, as tables: which volume a claim gets that is created again with
//! its name.

use super::{
    super::rebind::{Kept, Named, Rebinding, View, decide, is_open},
    record, volume,
};
use crate::objects::{
    ObjectName,
    fit::{ClaimRequirements, ClaimRequirementsWire},
    managed_by::PROVISIONER_LABEL,
    trash::{MAX_UNBINDABLE, PURGE, TRASH},
};
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};
use std::sync::Arc;

/// Six minutes before the end of the window of a claim that was deleted at `DELETED`.
const NOW: &str = "2026-01-01T00:54:00Z";
const DELETED: &str = "2026-01-01T00:00:00Z";

/// A volume in the trash of the claim `ns/data`, with `changes` merged over it and over its record.
fn kept(name: &str, changes: Value, of_record: Value) -> Named {
    let mut kept = record("1", json!({"deletedAt": DELETED}));
    json_patch::merge(&mut kept, &of_record);
    let mut all = json!({
        "metadata": {"annotations": {TRASH: kept.to_string()}},
        "spec": {"persistentVolumeReclaimPolicy": "Retain", "accessModes": ["ReadWriteOnce"]},
        "status": {"phase": "Released"},
    });
    json_patch::merge(&mut all, &changes);
    (ObjectName::cluster_scoped(name), Arc::new(volume(all)))
}

fn claim(changes: Value) -> Value {
    let mut claim = json!({
        "metadata": {"name": "data"},
        "spec": {"storageClassName": "fast", "accessModes": ["ReadWriteOnce"],
            "volumeMode": "Filesystem", "resources": {"requests": {"storage": "1Gi"}}},
    });
    json_patch::merge(&mut claim, &changes);
    claim
}

/// The volume that the claim gets, or why not.
#[derive(Debug, PartialEq)]
enum Outcome {
    Absent,
    Get(String),
    Keep(Kept),
}

use Outcome::{Absent, Keep};

fn outcome(volumes: &[Named], spec: Value, requested: bool) -> Outcome {
    let wire: ClaimRequirementsWire =
        serde_json::from_value(claim(json!({"spec": spec}))).expect("a claim");
    let view = View {
        name: &ObjectName::new("ns", "data"),
        requirements: &ClaimRequirements::from(wire),
        namespace_uid: "n",
        volumes,
        now: NOW.parse().expect("a time"),
        is_requested: &|_| requested,
    };
    match decide(&view) {
        Rebinding::Absent => Absent,
        Rebinding::Get((name, _)) => found(&name.name),
        Rebinding::Keep(_, why) => Keep(why),
    }
}

fn simple(changes: Value, of_record: Value) -> Outcome {
    outcome(&[kept("pv", changes, of_record)], json!({}), false)
}

fn found(name: &str) -> Outcome {
    Outcome::Get(name.to_owned())
}

#[test]
fn a_claim_gets_the_volume_of_the_deleted_claim_of_its_name() {
    assert_eq!(simple(json!({}), json!({})), found("pv"));
    assert_eq!(outcome(&[], json!({}), false), Absent);
    // The watch is late: a claim of this name is being created, so the API server has deleted the
    // earlier one.
    let late = json!({"status": {"phase": "Bound"}});
    assert_eq!(simple(late, json!({"deletedAt": null})), found("pv"));
    // The claim that the volume was reserved for was deleted before it was Bound.
    let reserved = json!({"spec": {"claimRef": {"uid": ""}}, "status": {"phase": "Available"}});
    assert_eq!(
        simple(reserved, json!({"reservedAt": DELETED})),
        found("pv")
    );
    // It was returned to the trash, and kube-controller-manager has not seen that yet.
    let returned = json!({"status": {"phase": "Available"}});
    assert_eq!(
        simple(returned, json!({"returnedAt": DELETED})),
        found("pv")
    );
    let retained = json!({"policy": "Retain", "windowSeconds": 1});
    assert_eq!(simple(json!({}), retained), found("pv"));
}

#[test]
fn other_volumes_are_not_given_to_the_claim() {
    for (changes, of_record) in [
        (json!({}), json!({"claim": {"namespaceUid": "earlier"}})),
        (json!({}), json!({"claim": {"namespaceUid": null}})),
        (json!({}), json!({"claim": {"name": "other"}})),
        (json!({}), json!({"claim": {"namespace": "other"}})),
        (json!({}), json!({"claim": {"uid": "earlier"}})),
        (
            json!({"spec": {"persistentVolumeReclaimPolicy": "Delete"}}),
            json!({}),
        ),
        (
            json!({"metadata": {"deletionTimestamp": DELETED}}),
            json!({}),
        ),
        (
            json!({"metadata": {"annotations": {TRASH: null}}}),
            json!({}),
        ),
        (
            json!({"metadata": {"annotations": {TRASH: "{}"}}}),
            json!({}),
        ),
        (json!({"status": {"phase": "Failed"}}), json!({})),
        (json!({"status": {"phase": "Available"}}), json!({})),
        (
            json!({"spec": {"claimRef": {"uid": ""}}, "status": {"phase": "Available"}}),
            json!({}),
        ),
    ] {
        let outcome = simple(changes.clone(), of_record.clone());
        assert_eq!(outcome, Absent, "{changes} {of_record}");
    }
}

#[test]
fn the_claim_that_was_deleted_last_counts() {
    let deleted = |name, at: Value| kept(name, json!({}), json!({"deletedAt": at}));
    let first = deleted("b", json!("2025-12-31T23:59:59Z"));
    let second = deleted("a", json!(DELETED));
    let not_recorded = deleted("0", Value::Null);
    for volumes in [[first.clone(), second.clone()], [second.clone(), first]] {
        assert_eq!(outcome(&volumes, json!({}), false), found("a"));
    }
    let volumes = [not_recorded.clone(), second.clone()];
    assert_eq!(outcome(&volumes, json!({}), false), found("0"));
    for volumes in [
        [not_recorded.clone(), not_recorded],
        [second.clone(), second],
    ] {
        assert_eq!(outcome(&volumes, json!({}), false), Keep(Kept::Unordered));
    }
}

/// The namespace of the claim that was deleted last is not known by uid, for example because an
/// admission policy wrote the record while no replica ran. An earlier claim is no substitute.
#[test]
fn a_claim_of_an_unknown_namespace_may_be_the_last_one() {
    let own = |at: &str| kept("own", json!({}), json!({"deletedAt": at}));
    let unknown = |at: &str| {
        let record = json!({"deletedAt": at, "claim": {"namespaceUid": null}});
        kept("unknown", json!({}), record)
    };
    let (earlier, later) = ("2025-12-31T23:59:59Z", DELETED);
    for (volumes, expected) in [
        ([own(earlier), unknown(later)], Absent),
        ([own(later), unknown(earlier)], found("own")),
        ([own(later), unknown(later)], Absent),
    ] {
        assert_eq!(outcome(&volumes, json!({}), false), expected);
    }
}

/// A claim of a name is created after the deletion of the earlier one.
#[test]
fn the_resource_version_shows_which_claim_was_deleted_last() {
    let bound = |name, version: &str, at: Value| {
        let changes = json!({"spec": {"claimRef": {"resourceVersion": version}}});
        kept(name, changes, json!({"deletedAt": at}))
    };
    for at in [Value::Null, json!(DELETED)] {
        let volumes = [bound("a", "10", at.clone()), bound("b", "9", at)];
        assert_eq!(outcome(&volumes, json!({}), false), found("a"));
    }
}

/// A claim gets no volume that it does not fit, because it would stay Pending.
#[test]
fn a_claim_that_does_not_fit_gets_a_new_volume() {
    let volumes = [kept("pv", json!({}), json!({}))];
    for (spec, fits) in [
        (
            json!({"resources": {"requests": {"storage": "512Mi"}}}),
            true,
        ),
        (
            json!({"resources": {"requests": {"storage": "1025Mi"}}}),
            false,
        ),
        (
            json!({"accessModes": ["ReadWriteOnce", "ReadOnlyMany"]}),
            false,
        ),
        (json!({"volumeMode": "Block"}), false),
        (json!({"volumeMode": null}), true),
        (json!({"storageClassName": "other"}), false),
        (json!({"volumeAttributesClassName": "gold"}), false),
    ] {
        let misfit = "class fast, 1Gi, ReadWriteOnce, Filesystem".to_owned();
        let expected = if fits {
            found("pv")
        } else {
            Keep(Kept::Misfit(misfit))
        };
        assert_eq!(outcome(&volumes, spec.clone(), false), expected, "{spec}");
    }
}

/// A claim that is created now would be missed by a purge that lists the claims at the same time.
#[test]
fn a_volume_that_is_purged_soon_is_not_given_to_a_claim() {
    let due = |seconds| simple(json!({}), json!({"windowSeconds": seconds}));
    let ends: Timestamp = "2026-01-01T00:59:00Z".parse().expect("a time");
    assert_eq!(due(59 * 60), Keep(Kept::Due(ends)));
    assert_eq!(due(59 * 60 + 1), found("pv"));
    assert!(matches!(due(1), Keep(Kept::Due(_))));
    // The window has not begun: it begins when Volume Warden sees that the claim is deleted.
    let unseen = |seconds| {
        simple(
            json!({}),
            json!({"deletedAt": null, "windowSeconds": seconds}),
        )
    };
    assert!(matches!(unseen(300), Keep(Kept::Due(_))));
    assert_eq!(unseen(301), found("pv"));
    let purge = |uid| json!({"metadata": {"annotations": {PURGE: uid}}});
    assert_eq!(simple(purge("1"), json!({})), Keep(Kept::PurgeRequested));
    assert_eq!(simple(purge("earlier"), json!({})), found("pv"));
}

#[test]
fn a_volume_that_the_claim_would_wait_for_is_not_given_to_it() {
    let uids: Vec<_> = (0..MAX_UNBINDABLE).map(|uid| uid.to_string()).collect();
    assert_eq!(
        simple(json!({}), json!({"unbindable": uids})),
        Keep(Kept::Unbindable)
    );
    let volumes = [kept("pv", json!({}), json!({}))];
    assert_eq!(outcome(&volumes, json!({}), true), Keep(Kept::Requested));
}

#[test]
fn a_claim_that_says_where_its_data_comes_from_is_left_unchanged() {
    let open = |changes| {
        let claim: ClaimRequirementsWire = serde_json::from_value(claim(changes)).expect("a claim");
        is_open(&claim)
    };
    assert!(open(json!({})));
    assert!(open(json!({"spec": {"volumeName": ""}})));
    let owner = |version: &str, kind: &str| {
        let owner = json!({"apiVersion": version, "kind": kind});
        json!({"metadata": {"ownerReferences": [owner]}})
    };
    assert!(open(owner("apps/v1", "StatefulSet")));
    let mut awaiting =
        json!({"metadata": {"annotations": {"volume-warden.dev/awaiting-pod": DELETED}}});
    // A copied marker without the label of pvc-provisioner.
    assert!(open(awaiting.clone()));
    awaiting["metadata"]["labels"] = json!({PROVISIONER_LABEL: "id"});
    for changes in [
        json!({"spec": {"volumeName": "pv"}}),
        json!({"spec": {"selector": {}}}),
        json!({"spec": {"dataSource": {"kind": "VolumeSnapshot", "name": "x"}}}),
        json!({"spec": {"dataSourceRef": {"kind": "Image", "name": "x"}}}),
        owner("v1", "Pod"),
        awaiting,
        json!({"metadata": {"annotations": {"cdi.kubevirt.io/storage.upload.target": ""}}}),
    ] {
        assert!(!open(changes.clone()), "{changes}");
    }
}
