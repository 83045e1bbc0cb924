//! Tests of the live reads without which no volume is purged or restored.

use super::{
    record,
    scene::{Scene, Server},
};
use crate::{
    cluster::{Lane, Requeue},
    components::pvc_trash::{reconcile::PvcTrashReconciler, register_metrics},
    objects::{
        ObjectName,
        trash::{PURGE, TRASH, UNDELETE},
    },
    telemetry::Metrics,
};
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::time::Duration;

const POLICY: &str = "/spec/persistentVolumeReclaimPolicy";
const CLAIM_REF: &str = "/spec/claimRef";
const RECORD: &str = "/metadata/annotations/volume-warden.dev~1trash";

fn deleted() -> Timestamp {
    "2026-01-01T00:00:00Z".parse().expect("a time")
}

/// The time this number of minutes after the deletion. The window is an hour.
pub(super) fn after(minutes: i64) -> Timestamp {
    deleted() + SignedDuration::from_mins(minutes)
}

/// An API server on which the claim is deleted and nothing is attached, two hours after the
/// deletion.
pub(super) fn server() -> Server {
    Server {
        claims: Vec::new(),
        created: Mutex::default(),
        namespace: Some("n"),
        attached: Some(Vec::new()),
        others: Vec::new(),
        unreadable: None,
        refuses: false,
        slow: None,
        interrupts: None,
        time: after(120),
        patches: Mutex::default(),
        stored: Mutex::default(),
        writes: Mutex::default(),
    }
}

pub(super) fn in_trash(changes: Value) -> Value {
    let record = record("1", json!({"deletedAt": deleted().to_string()}));
    let mut volume = json!({
        "metadata": {"name": "pv", "uid": "v", "resourceVersion": "7",
            "annotations": {TRASH: record.to_string()}},
        "spec": {"storageClassName": "fast", "persistentVolumeReclaimPolicy": "Retain",
            "claimRef": {"namespace": "ns", "name": "data", "uid": "1"}},
        "status": {"phase": "Released"},
    });
    json_patch::merge(&mut volume, &changes);
    volume
}

fn claim(name: &str, changes: Value) -> Value {
    let mut claim =
        json!({"metadata": {"namespace": "ns", "name": name, "uid": "2", "resourceVersion": "9"}});
    json_patch::merge(&mut claim, &changes);
    claim
}

/// Reconciles a volume in the trash two hours after the deletion; returns the policy that it gets.
async fn policy(server: Server, changes: Value) -> (Option<Value>, Result<Requeue, String>) {
    let scene = Scene::new(server, after(120), in_trash(changes), &[]);
    let outcome = scene.reconcile().await;
    (scene.patched(POLICY), outcome)
}

#[tokio::test(start_paused = true)]
async fn a_volume_is_purged_after_its_window() {
    // The LIST of a large cluster takes longer than a read counts.
    let slow = Some(("/persistentvolumes", Duration::from_secs(12)));
    for slow in [None, slow] {
        let server = Server { slow, ..server() };
        let (policy, outcome) = policy(server, json!({})).await;
        assert_eq!((policy, outcome.is_ok()), (Some(json!("Delete")), true));
    }
}

#[tokio::test(start_paused = true)]
async fn a_volume_is_purged_only_by_live_reads() {
    let same = json!({"metadata": {"uid": "1"}});
    let exists = Server {
        claims: vec![claim("data", same)],
        ..server()
    };
    let attached = Server {
        attached: Some(vec!["other", "pv"]),
        ..server()
    };
    let unreadable = Server {
        attached: None,
        ..server()
    };
    for (server, expected) in [
        (exists, "the claim ns/data still exists"),
        (attached, "the volume is still attached to a node"),
        (unreadable, "VolumeAttachments could not be read"),
    ] {
        let (policy, outcome) = policy(server, json!({})).await;
        let error = outcome.expect_err(expected);
        assert_eq!(policy, None, "{expected}");
        assert!(error.contains(expected), "{error}");
    }
    // Another claim has the name of the deleted one now.
    let recreated = Server {
        claims: vec![claim("data", json!({}))],
        ..server()
    };
    assert_eq!(policy(recreated, json!({})).await.0, Some(json!("Delete")));
}

/// The purge waits for other writes, and meanwhile the watch shows a claim that requests the data.
#[tokio::test(start_paused = true)]
async fn a_volume_that_is_requested_while_its_purge_waits_is_kept() {
    for (requested, expected) in [(true, None), (false, Some(json!("Delete")))] {
        let scene = Scene::new(server(), after(120), in_trash(json!({})), &[]);
        let lanes = &scene.reconciler.apply.lanes;
        let permit = lanes.permit(Lane::Bulk, &"".into()).await;
        let meanwhile = async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            if requested {
                let claim = requesting("again", "pv");
                let claim = serde_json::from_value(claim).expect("a claim");
                scene.feeds.claims.deliver(claim, true);
            }
            drop(permit);
        };
        let (outcome, ()) = tokio::join!(scene.reconcile(), meanwhile);
        assert_eq!(outcome.is_err(), requested, "{outcome:?}");
        assert_eq!(scene.patched(POLICY), expected);
    }
}

/// An administrator created another volume with the same storage, to get the data back.
#[tokio::test(start_paused = true)]
async fn a_volume_whose_data_another_volume_has_is_kept() {
    let at = |handle: &str| json!({"spec": {"csi": {"driver": "d", "volumeHandle": handle}}});
    let requested = json!({"metadata": {"annotations": {PURGE: "1"}}});
    for changes in [json!({}), requested] {
        for (handle, purged) in [("h", false), ("i", true)] {
            let mut other = json!({"metadata": {"name": "copy", "uid": "w"}});
            json_patch::merge(&mut other, &at(handle));
            let server = Server {
                others: vec![other],
                ..server()
            };
            let mut volume = in_trash(changes.clone());
            json_patch::merge(&mut volume, &at("h"));
            let scene = Scene::new(server, after(120), volume, &[]);
            for _ in 0..2 {
                scene.reconcile().await.expect("decided");
            }
            assert_eq!(scene.patched(POLICY).is_some(), purged, "{handle}");
            let notes = scene.notes().await;
            let about = notes
                .iter()
                .filter(|note| note.contains("the volume copy has"));
            assert_eq!(about.count(), usize::from(!purged), "once: {notes:?}");
        }
    }
    let unread = Server {
        unreadable: Some("/persistentvolumes"),
        ..server()
    };
    let (policy, outcome) = policy(unread, json!({})).await;
    assert_eq!(policy, None);
    assert!(outcome.is_err_and(|error| error.contains("the volumes could not be read")));
}

/// One of the two clocks is wrong, and it is not known which. A user's request does not override
/// that.
#[tokio::test(start_paused = true)]
async fn nothing_is_purged_while_the_clocks_differ() {
    let requested = json!({"metadata": {"annotations": {PURGE: "1"}}});
    for changes in [json!({}), requested] {
        for (minutes, purged) in [(114, false), (116, true), (124, true), (126, false)] {
            let server = Server {
                time: after(minutes),
                ..server()
            };
            let (policy, outcome) = policy(server, changes.clone()).await;
            assert_eq!(policy.is_some(), purged, "{minutes}");
            let differ =
                outcome.is_err_and(|error| error.contains("differ by more than 5 minutes"));
            assert_eq!(differ, !purged, "{minutes}");
        }
    }
}

/// The window has ended only when it has by both clocks: that of the API server and that of this
/// process.
#[tokio::test(start_paused = true)]
async fn the_window_ends_by_the_clock_of_the_api_server() {
    let purged = async |server_minutes: i64, own_minutes: i64| {
        let server = Server {
            time: after(server_minutes),
            ..server()
        };
        let scene = Scene::new(server, after(own_minutes), in_trash(json!({})), &[]);
        let outcome = scene.reconcile().await.expect("decided");
        (scene.patched(POLICY).is_some(), outcome)
    };
    assert!(matches!(purged(58, 61).await, (false, Requeue::After(..))));
    assert!(matches!(purged(61, 58).await, (false, Requeue::After(..))));
    assert!(purged(60, 60).await.0);
}

pub(super) fn requesting(name: &str, volume: &str) -> Value {
    claim(
        name,
        json!({"metadata": {"annotations": {UNDELETE: "data"}}, "spec": {"volumeName": volume},
            "status": {"phase": "Pending"}}),
    )
}

/// Returns the `claimRef` that the volume gets, if the watch has the claim as `watched` and the API
/// server as `live`.
async fn restored(watched: Value, live: Option<Value>, namespace: &'static str) -> Option<Value> {
    let server = Server {
        claims: live.into_iter().collect(),
        namespace: Some(namespace),
        time: after(10),
        ..server()
    };
    let scene = Scene::new(server, after(10), in_trash(json!({})), &[watched]);
    // The test examines the patches, and not this result.
    let _ = scene.reconcile().await;
    assert_eq!(scene.patched(POLICY), None);
    scene.patched(CLAIM_REF)
}

#[tokio::test(start_paused = true)]
async fn a_claim_gets_the_volume_only_by_live_reads() {
    let again = requesting("again", "pv");
    let got = restored(again.clone(), Some(again.clone()), "n").await;
    let got = got.expect("reserved");
    assert_eq!((&got["name"], &got["uid"]), (&json!("again"), &Value::Null));
    let bound = json!({"status": {"phase": "Bound"}});
    let mut changed = again.clone();
    json_patch::merge(&mut changed, &bound);
    for (live, namespace) in [
        (None, "n"),
        (Some(requesting("again", "other")), "n"),
        (Some(changed), "n"),
        (Some(again.clone()), "recreated"),
    ] {
        assert_eq!(restored(again.clone(), live, namespace).await, None);
    }
    let mut elsewhere = again;
    elsewhere["metadata"]["namespace"] = json!("other");
    assert_eq!(
        restored(elsewhere.clone(), Some(elsewhere), "n").await,
        None
    );
}

/// Returns the uid of the claim in `claimRef`, if the volume is returned to the trash. It was
/// reserved this number of minutes ago, and the leader's clock is `fast` minutes ahead.
async fn returned(minutes: i64, fast: i64, live: Option<Value>) -> Option<Value> {
    returning(minutes, fast, live).await.patched(CLAIM_REF)
}

async fn returning(minutes: i64, fast: i64, live: Option<Value>) -> Scene {
    returning_with(minutes, fast, live, &[requesting("again", "pv")]).await
}

async fn returning_with(minutes: i64, fast: i64, live: Option<Value>, watched: &[Value]) -> Scene {
    let now = after(60);
    let reserved_at = now - SignedDuration::from_mins(minutes);
    let times = json!({"deletedAt": deleted().to_string(), "reservedAt": reserved_at.to_string(),
        "reservedFor": "2"});
    let reserved = in_trash(json!({
        "metadata": {"annotations": {TRASH: record("1", times).to_string()}},
        "spec": {"claimRef": {"name": "again", "uid": null}}, "status": {"phase": "Available"},
    }));
    let server = Server {
        claims: live.into_iter().collect(),
        time: now,
        ..server()
    };
    let local = now + SignedDuration::from_mins(fast);
    let scene = Scene::new(server, local, reserved, watched);
    let _ = scene.reconcile().await;
    scene
}

/// With the policy Delete and the uid of a deleted claim, the provisioner would delete the data,
/// although no purge is due.
#[tokio::test(start_paused = true)]
async fn a_reservation_stays_if_the_policy_is_not_retain() {
    for (policy, returned) in [("Retain", true), ("Delete", false)] {
        let times = json!({"deletedAt": deleted().to_string(), "reservedFor": "2",
            "reservedAt": (after(60) - SignedDuration::from_mins(6)).to_string()});
        let reserved = in_trash(json!({
            "metadata": {"annotations": {TRASH: record("1", times).to_string()}},
            "spec": {"claimRef": {"name": "again", "uid": null},
                "persistentVolumeReclaimPolicy": policy},
            "status": {"phase": "Available"},
        }));
        let server = Server {
            time: after(60),
            ..server()
        };
        let scene = Scene::new(server, after(60), reserved, &[]);
        let _ = scene.reconcile().await;
        assert_eq!(scene.patched(CLAIM_REF).is_some(), returned, "{policy}");
    }
}

/// The watch of claims is late, for example of a replica that has just become the leader.
#[tokio::test(start_paused = true)]
async fn a_claim_that_the_watch_lacks_keeps_its_reservation_for_five_minutes() {
    let live = || Some(requesting("again", "pv"));
    let back = async |minutes, live| {
        let scene = returning_with(minutes, 0, live, &[]).await;
        (scene.patched(CLAIM_REF).is_some(), scene.patched(RECORD))
    };
    assert_eq!(back(4, live()).await, (false, None));
    let (returned, record) = back(6, live()).await;
    assert!(returned);
    let record = record.expect("a record").to_string();
    assert!(record.contains("unbindable"), "{record}");
    assert!(back(4, None).await.0, "the claim does not exist");
    let mut other = requesting("again", "pv");
    other["metadata"]["uid"] = json!("stranger");
    assert!(
        back(4, Some(other)).await.0,
        "it is reserved for another claim"
    );
}

#[tokio::test(start_paused = true)]
async fn a_reservation_ends_after_five_minutes() {
    let pending = || {
        Some(claim(
            "again",
            json!({"spec": {"volumeName": "other"}, "status": {"phase": "Pending"}}),
        ))
    };
    for fast in [0, 60, -60] {
        assert_eq!(returned(4, fast, pending()).await, None, "{fast}");
        let returned = returned(6, fast, pending()).await;
        assert!(returned.is_some(), "{fast}");
    }
    let back = returned(6, 0, pending()).await.expect("returned");
    assert_eq!((&back["name"], &back["uid"]), (&json!("data"), &json!("1")));
    let bound = json!({"spec": {"volumeName": "pv"}, "status": {"phase": "Bound"}});
    assert_eq!(returned(6, 0, Some(claim("again", bound))).await, None);
}

/// A namespace was recreated, and its new tenant has a claim of the same name.
#[tokio::test(start_paused = true)]
async fn another_claim_of_that_name_does_not_get_a_reserved_volume() {
    let mut stranger = requesting("again", "pv");
    stranger["metadata"]["uid"] = json!("stranger");
    let now = after(60);
    let record = record(
        "1",
        json!({"deletedAt": deleted().to_string(),
        "reservedAt": now.to_string(), "reservedFor": "2"}),
    );
    let reserved = in_trash(json!({
        "metadata": {"annotations": {TRASH: record.to_string()}},
        "spec": {"claimRef": {"name": "again", "uid": null}}, "status": {"phase": "Available"},
    }));
    let server = Server {
        claims: vec![stranger.clone()],
        time: now,
        ..server()
    };
    let scene = Scene::new(server, now, reserved, &[stranger]);
    scene.reconcile().await.expect("returned");
    assert_eq!(
        scene.patched(CLAIM_REF).expect("returned")["uid"],
        json!("1")
    );
    assert_eq!(written(&scene)["unbindable"], json!(null));
}

/// A tenant can write the annotations and the volume name of a claim, but must not keep a volume
/// reserved by that.
#[tokio::test(start_paused = true)]
async fn only_the_phase_shows_that_a_claim_is_bound() {
    for phase in ["Pending", "Lost"] {
        let completed = json!({"pv.kubernetes.io/bind-completed": "yes"});
        let claimed = json!({"metadata": {"annotations": completed}, "spec": {"volumeName": "pv"}, "status": {"phase": phase}});
        let scene = returning(6, 0, Some(claim("again", claimed))).await;
        assert!(scene.patched(CLAIM_REF).is_some(), "{phase}");
        assert_eq!(written(&scene)["unbindable"], json!(["2"]), "{phase}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_claim_learns_why_it_does_not_get_the_volume_reserved_for_it() {
    for (phase, volume, reason) in [
        ("Pending", "pv", "could not be bound to the volume within"),
        ("Bound", "another", "is Bound to another volume"),
        ("Lost", "pv", "is Lost"),
    ] {
        let live = json!({"spec": {"volumeName": volume}, "status": {"phase": phase}});
        let scene = returning(6, 0, Some(claim("again", live))).await;
        let notes = scene.notes().await;
        let requested = "claim ns/again does not get the data that it requests: it ";
        let expected = format!("{requested}{reason}");
        let found = notes.iter().any(|note| note.starts_with(&expected));
        assert!(found, "{phase}: {notes:?}");
    }
}

/// The undelete window would end when the restore fails, so it is prolonged to an hour.
#[tokio::test(start_paused = true)]
async fn a_restore_that_fails_leaves_an_hour() {
    let scene = returning(6, 0, None).await;
    let record = written(&scene);
    assert_eq!(record["returnedAt"], json!(after(60)));
    let purged = async |minutes: i64| {
        let server = Server {
            time: after(minutes),
            ..server()
        };
        let back = in_trash(json!({"metadata": {"annotations": {TRASH: record.to_string()}}}));
        let scene = Scene::new(server, after(minutes), back, &[]);
        scene.reconcile().await.expect("decided");
        scene.patched(POLICY).is_some()
    };
    assert_eq!([purged(119).await, purged(120).await], [false, true]);
}

/// A change of the claim for the binder is not counted as a restore: it happens several times for
/// each restore.
#[tokio::test(start_paused = true)]
async fn a_change_for_the_binder_has_its_own_reason() {
    let scene = returning(4, 0, None).await;
    tokio::time::advance(std::time::Duration::from_secs(1)).await;
    scene.reconcile().await.expect("waits");
    let text = scene.metrics.text();
    assert!(text.contains("reason=\"BindingRetried\""), "{text}");
    assert!(!text.contains("reason=\"Restored\""), "{text}");
}

#[tokio::test(start_paused = true)]
async fn the_metrics_show_number_and_bytes_by_fate() {
    let capacity = json!({"spec": {"capacity": {"storage": "1Gi"}}});
    let unseen = json!({"metadata": {"annotations": {TRASH: record("1", json!({})).to_string()}},
        "spec": {"capacity": {"storage": "2Ki"}}});
    for (changes, fate, bytes) in [(capacity, "Due", 1 << 30), (unseen, "Released", 2048)] {
        let scene = Scene::new(server(), after(120), in_trash(changes), &[]);
        let metrics = Metrics::new();
        let PvcTrashReconciler { caches, clock, .. } = &scene.reconciler;
        register_metrics(&metrics, caches.clone(), clock.clone());
        let text = metrics.text();
        for (name, value) in [("volumes", 1), ("bytes", bytes)] {
            let line = format!("trash_{name}{{fate=\"{fate}\"}} {value}\n");
            assert!(text.contains(&line), "{line}: {text}");
        }
        assert!(text.contains("trash_bytes{fate=\"InTrash\"} 0\n"), "{text}");
    }
}

/// The record that a patch of the volume writes.
pub(super) fn written(scene: &Scene) -> Value {
    let record = scene.patched(RECORD).expect("a record");
    serde_json::from_str(record.as_str().unwrap_or_default()).expect("JSON")
}

/// The clock of an API server was days behind when the claim was deleted: its window must not have
/// ended already when the clock is right again.
#[tokio::test(start_paused = true)]
async fn a_window_does_not_begin_in_the_past() {
    let began = async |minutes: i64| {
        let server = Server {
            time: after(minutes),
            ..server()
        };
        let unseen = in_trash(
            json!({"metadata": {"annotations": {TRASH: record("1", json!({})).to_string()}}}),
        );
        let scene = Scene::new(server, after(0), unseen, &[]);
        scene.reconcile().await.expect("moved to the trash");
        written(&scene)["deletedAt"].clone()
    };
    assert_eq!(
        began(-4).await,
        json!(after(-4)),
        "the clock of the API server counts"
    );
    assert_eq!(began(-3000).await, json!(after(0)));
    assert_eq!(began(3000).await, json!(after(3000)));
}

/// A claim that could not be bound does not get the volume again, but another claim does.
#[tokio::test(start_paused = true)]
async fn a_claim_that_cannot_be_bound_gets_one_try() {
    let pending = json!({"metadata": {"name": "again", "uid": "2"}, "spec": {"volumeName": "other"},
        "status": {"phase": "Pending"}});
    let scene = returning(6, 0, Some(claim("again", pending))).await;
    let record = written(&scene);
    assert_eq!(record["unbindable"], json!(["2"]));

    let back = in_trash(json!({"metadata": {"annotations": {TRASH: record.to_string()}}}));
    let with_uid = |name: &str, uid: &str| {
        let mut claim = requesting(name, "pv");
        claim["metadata"]["uid"] = json!(uid);
        claim
    };
    let reserved = async |claims: Vec<Value>| {
        let server = Server {
            claims: claims.clone(),
            ..server()
        };
        let scene = Scene::new(server, after(30), back.clone(), &claims);
        let _ = scene.reconcile().await;
        scene.patched(CLAIM_REF).map(|claim| claim["name"].clone())
    };
    assert_eq!(reserved(vec![with_uid("again", "2")]).await, None);
    let both = vec![with_uid("again", "2"), with_uid("better", "8")];
    assert_eq!(reserved(both).await, Some(json!("better")));
    assert_eq!(
        reserved(vec![with_uid("again", "9")]).await,
        Some(json!("again"))
    );
}

/// Two claims that cannot be bound do not get the volume alternately, and ten of them do not
/// prolong the window.
#[tokio::test(start_paused = true)]
async fn claims_that_cannot_be_bound_get_one_try_each() {
    let reserved = async |unbindable: Vec<String>| {
        let changes = json!({"deletedAt": deleted().to_string(), "unbindable": unbindable});
        let back = in_trash(json!({
            "metadata": {"annotations": {TRASH: record("1", changes).to_string()}},
        }));
        let mut claims = vec![requesting("one", "pv"), requesting("two", "pv")];
        claims[1]["metadata"]["uid"] = json!("3");
        let server = Server {
            claims: claims.clone(),
            ..server()
        };
        let scene = Scene::new(server, after(120), back, &claims);
        scene.reconcile().await.expect("decided");
        let claim = scene.patched(CLAIM_REF).map(|claim| claim["name"].clone());
        (claim, scene.patched(POLICY).is_some())
    };
    let uids = |uids: &[&str]| uids.iter().map(|uid| (*uid).to_owned()).collect::<Vec<_>>();
    assert_eq!(reserved(uids(&["2"])).await, (Some(json!("two")), false));
    assert_eq!(reserved(uids(&["2", "3"])).await, (None, true));
    let ten = (10..20).map(|uid| uid.to_string()).collect();
    assert_eq!(reserved(ten).await, (None, true));
}

/// The uid of a claim that failed earlier stays in the record when another claim fails.
#[tokio::test(start_paused = true)]
async fn every_claim_that_could_not_be_bound_is_recorded() {
    let pending = json!({"status": {"phase": "Pending"}});
    for (live, expected) in [
        (None, json!(["7"])),
        (Some(claim("again", pending)), json!(["7", "2"])),
    ] {
        let reserved = record(
            "1",
            json!({"deletedAt": deleted().to_string(),
            "reservedAt": after(50).to_string(), "reservedFor": "2", "unbindable": ["7"]}),
        );
        let volume = in_trash(json!({
            "metadata": {"annotations": {TRASH: reserved.to_string()}},
            "spec": {"claimRef": {"name": "again", "uid": null}}, "status": {"phase": "Available"},
        }));
        let server = Server {
            claims: live.into_iter().collect(),
            time: after(60),
            ..server()
        };
        let scene = Scene::new(server, after(60), volume, &[requesting("again", "pv")]);
        scene.reconcile().await.expect("returned");
        assert_eq!(written(&scene)["unbindable"], expected);
    }
}

/// A claim of a recreated namespace does not get the volume, and its request does not prolong the
/// window.
#[tokio::test(start_paused = true)]
async fn a_claim_of_a_later_namespace_does_not_prolong_the_window() {
    let stranger = requesting("again", "pv");
    let server = Server {
        claims: vec![stranger.clone()],
        namespace: Some("recreated"),
        ..server()
    };
    let scene = Scene::new(server, after(120), in_trash(json!({})), &[stranger]);
    scene.reconcile().await.expect("purged");
    assert_eq!(scene.patched(CLAIM_REF), None);
    assert_eq!(scene.patched(POLICY), Some(json!("Delete")));
}

/// A record that lacks the uid of the namespace is written again once claim and namespace can be
/// read.
#[tokio::test(start_paused = true)]
async fn a_record_without_its_namespace_is_soon_tried_again() {
    let bound = || {
        let mut record = record("1", json!({}));
        record["claim"]["namespaceUid"] = Value::Null;
        in_trash(json!({
            "metadata": {"annotations": {TRASH: record.to_string()}}, "status": {"phase": "Bound"},
        }))
    };
    let claim = claim("data", json!({"metadata": {"uid": "1"}}));
    let outcome = async |unreadable| {
        let claims = vec![claim.clone()];
        let server = Server {
            claims,
            unreadable,
            ..server()
        };
        let scene = Scene::new(server, after(0), bound(), &[]);
        let outcome = scene.reconcile().await;
        (outcome.is_err(), scene.patched(RECORD).is_some())
    };
    for part in ["/namespaces/ns", "/persistentvolumeclaims/data"] {
        assert_eq!(outcome(Some(part)).await, (true, false), "{part}");
    }
    assert_eq!(outcome(None).await, (false, true));
}

/// A claim that restored the data is deleted as soon as it is Bound. The record of the claim before
/// it has the uid of the namespace, without which no user could restore the data again.
#[tokio::test(start_paused = true)]
async fn a_claim_that_is_gone_does_not_cost_the_record_its_namespace() {
    let bound = json!({
        "spec": {"claimRef": {"name": "again", "uid": "2"}}, "status": {"phase": "Bound"},
    });
    let scene = Scene::new(server(), after(0), in_trash(bound), &[]);
    let outcome = scene.reconcile().await;
    assert!(matches!(outcome, Ok(Requeue::After(..))), "{outcome:?}");
    assert_eq!(scene.patched(RECORD), None);
}

#[tokio::test(start_paused = true)]
async fn the_limit_of_purges_keeps_the_others() {
    let scene = Scene::new(server(), after(120), in_trash(json!({})), &[]);
    let slot = scene
        .reconciler
        .purges
        .reserve(&other(), false)
        .expect("the only one");
    slot.count();
    let outcome = scene.reconcile().await;
    assert!(matches!(outcome, Ok(Requeue::After(..))), "{outcome:?}");
    assert_eq!(scene.patched(POLICY), None);
}

#[tokio::test(start_paused = true)]
async fn a_requested_purge_that_the_limit_delays_is_the_next_one() {
    let requested = in_trash(json!({"metadata": {"annotations": {PURGE: "1"}}}));
    let scene = Scene::new(server(), after(0), requested, &[]);
    let purges = &scene.reconciler.purges;
    let slot = purges.reserve(&other(), false).expect("the only one");
    let outcome = scene.reconcile().await;
    assert!(matches!(outcome, Ok(Requeue::After(..))), "{outcome:?}");
    drop(slot);
    assert!(purges.reserve(&other(), false).is_err(), "others wait");
    let withdrawn = serde_json::from_value(in_trash(json!({}))).expect("a volume");
    scene.reconciler.caches.volumes.deliver(withdrawn, true);
    assert!(scene.reconcile().await.is_ok());
    assert!(purges.reserve(&other(), false).is_ok(), "nothing waits");
}

fn other() -> ObjectName {
    ObjectName::cluster_scoped("other")
}

/// When one purge becomes possible, hundreds of volumes may wait for it: only one of them is read.
#[tokio::test(start_paused = true)]
async fn a_volume_is_read_only_if_it_may_be_purged() {
    let failing = Server {
        attached: None,
        ..server()
    };
    let scene = Scene::new(failing, after(120), in_trash(json!({})), &[]);
    let slot = scene
        .reconciler
        .purges
        .reserve(&other(), false)
        .expect("the only one");
    let outcome = scene.reconcile().await;
    assert!(matches!(outcome, Ok(Requeue::After(..))), "{outcome:?}");
    drop(slot);
    assert!(scene.reconcile().await.is_err(), "it is read");
    let slot = scene.reconciler.purges.reserve(&other(), false);
    assert!(slot.is_ok(), "a purge that fails does not count");
}

/// A live LIST finds a claim that the watch has not delivered yet, so the volume is not purged.
#[tokio::test(start_paused = true)]
async fn a_claim_that_was_created_just_now_prevents_the_purge() {
    let purged = async |claim: Value, unreadable, namespace| {
        let server = Server {
            claims: vec![claim],
            unreadable,
            namespace: Some(namespace),
            ..server()
        };
        let unbindable = json!({"deletedAt": deleted().to_string(), "unbindable": ["5"]});
        let record = record("1", unbindable).to_string();
        let volume = in_trash(json!({"metadata": {"annotations": {TRASH: record}}}));
        let scene = Scene::new(server, after(120), volume, &[]);
        let error = scene.reconcile().await.err();
        (scene.patched(POLICY).is_some(), error.unwrap_or_default())
    };
    let again = || requesting("again", "pv");
    let (done, error) = purged(again(), None, "n").await;
    assert!(
        !done && error.contains("the claim ns/again requests the volume"),
        "{error}"
    );
    let claims = Some("/persistentvolumeclaims");
    let (done, error) = purged(again(), claims, "n").await;
    assert!(!done && error.contains("could not be read"), "{error}");
    // None of these claims may get the volume.
    let mut unbindable = again();
    unbindable["metadata"]["uid"] = json!("5");
    for (claim, namespace) in [
        (requesting("again", "other"), "n"),
        (unbindable, "n"),
        (again(), "recreated"),
    ] {
        assert!(purged(claim, None, namespace).await.0);
    }
}

/// The LIST of volumes takes long in a large cluster, and a user restores the data meanwhile.
#[tokio::test(start_paused = true)]
async fn a_claim_that_is_created_during_the_reads_prevents_the_purge() {
    let slow = Some(("/persistentvolumes", Duration::from_secs(12)));
    let server = Server { slow, ..server() };
    let scene = Scene::new(server, after(120), in_trash(json!({})), &[]);
    let restore = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let mut created = scene.server.created.lock();
        created.push(requesting("again", "pv"));
    };
    let (outcome, ()) = tokio::join!(scene.reconcile(), restore);
    let error = outcome.expect_err("it is kept");
    assert!(
        error.contains("the claim ns/again requests the volume"),
        "{error}"
    );
    assert_eq!(scene.patched(POLICY), None);
}

/// The claim was created while the volume was in the trash, but the purge was written before the
/// reservation.
#[tokio::test(start_paused = true)]
async fn a_claim_whose_volume_is_purged_gets_an_event() {
    let notes = async |volume: Value, claim: Value| {
        let scene = Scene::new(server(), after(120), volume, &[claim]);
        for _ in 0..2 {
            scene.reconcile().await.expect("decided");
        }
        scene.notes().await
    };
    let policy = json!({"spec": {"persistentVolumeReclaimPolicy": "Delete"}});
    let purged = in_trash(policy);
    let events = notes(purged.clone(), requesting("again", "pv")).await;
    assert_eq!(events.len(), 1, "{events:?}");
    assert!(events[0].contains("has been purged"), "{events:?}");
    let mut other = requesting("again", "pv");
    other["metadata"]["namespace"] = json!("other");
    assert_eq!(notes(purged, other).await, [""; 0]);
}
