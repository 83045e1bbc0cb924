//! Tests of the rule of pvc-expiry.

mod restorable;

use super::rule::{Decision, LeaveReason, NOTICE, View, decide};
use crate::objects::{
    Claim, StorageClass, Tracked, Volume,
    claim::ClaimWire,
    expiry::{EXPIRE_UNUSED, EXPIRES_AT},
    trash::TRASH,
    undelete_window::UNDELETE_WINDOW,
    volume::VolumeWire,
};
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

fn day(day: u8) -> Timestamp {
    format!("2026-01-{day:02}T00:00:00Z")
        .parse()
        .expect("a time")
}

/// A Bound claim that has been unused since the first of January, with these changes.
fn claim(changes: Value) -> Claim {
    let mut claim = json!({
        "metadata": {"name": "data", "namespace": "shop", "uid": "c"},
        "spec": {"volumeName": "pv"},
        "status": {"phase": "Bound", "conditions": [
            {"type": "Unused", "status": "True", "lastTransitionTime": day(1).to_string()}]},
    });
    json_patch::merge(&mut claim, &changes);
    let claim: ClaimWire = serde_json::from_value(claim).expect("a claim");
    claim.into()
}

fn annotated(key: &str, value: &str) -> Value {
    json!({"metadata": {"annotations": {key: value}}})
}

/// The volume of the claim, recorded for the trash, with these changes.
fn volume(changes: Value) -> Volume {
    let record = json!({"policy": "Delete", "windowSeconds": 3600,
        "claim": {"namespace": "shop", "name": "data", "uid": "c"}});
    let mut volume = json!({
        "metadata": {"name": "pv", "uid": "v", "annotations": {TRASH: record.to_string()}},
        "spec": {"persistentVolumeReclaimPolicy": "Retain",
            "claimRef": {"namespace": "shop", "name": "data", "uid": "c"}},
        "status": {"phase": "Bound"},
    });
    json_patch::merge(&mut volume, &changes);
    let volume: VolumeWire = serde_json::from_value(volume).expect("a volume");
    volume.into()
}

/// The class of the volume, with these changes of its annotations. Its claims expire after 20 days,
/// into a trash of three days.
fn class_with(changes: Value) -> StorageClass {
    let mut annotations = json!({EXPIRE_UNUSED: "20d", UNDELETE_WINDOW: "72h"});
    json_patch::merge(&mut annotations, &changes);
    let class = json!({"metadata": {"name": "fast", "annotations": annotations}});
    let class = serde_json::from_value(class).expect("a class");
    StorageClass::track(class).expect("a class with an annotation")
}

/// Decides about the claim, whose class says `20d`, while it has been watched since the year
/// before.
fn decided(claim: &Claim, now: Timestamp) -> Decision {
    let (volume, class) = (volume(json!({})), class_with(json!({})));
    decide(&View {
        claim,
        volume: Some(&volume),
        class: Some(&class),
        used: false,
        observed: Some("2025-06-01T00:00:00Z".parse().expect("a time")),
        now,
    })
}

#[test]
fn a_claim_is_announced_a_week_before_it_expires() {
    let fresh = claim(json!({}));
    assert_eq!(decided(&fresh, day(13)), Decision::Wait(day(14)));
    assert_eq!(decided(&fresh, day(14)), Decision::Announce(day(21)));
    // The claim was not announced seven days before, so it expires later.
    assert_eq!(decided(&fresh, day(20)), Decision::Announce(day(27)));
    let announced = claim(annotated(EXPIRES_AT, &day(21).to_string()));
    assert_eq!(decided(&announced, day(20)), Decision::Wait(day(21)));
    assert_eq!(decided(&announced, day(21)), Decision::Expire);
    assert_eq!(NOTICE.as_secs(), 7 * 86_400);
}

#[test]
fn an_announced_time_has_whole_seconds() {
    let now = "2026-01-20T00:00:00.000000001Z".parse().expect("a time");
    let later = "2026-01-27T00:00:01Z".parse().expect("a time");
    assert_eq!(decided(&claim(json!({})), now), Decision::Announce(later));
}

/// The annotation may come from a tenant, a backup, or an earlier time without pods.
#[test]
fn an_announcement_of_another_time_is_void() {
    let week_later = "2026-02-01T00:00:00Z".parse().expect("a time");
    for at in [day(20).to_string(), "soon".to_owned(), String::new()] {
        let other = claim(annotated(EXPIRES_AT, &at));
        assert_eq!(
            decided(&other, day(25)),
            Decision::Announce(week_later),
            "{at}"
        );
        assert_eq!(decided(&other, day(2)), Decision::Cancel(None), "{at}");
    }
    let later = claim(annotated(EXPIRES_AT, &day(28).to_string()));
    assert_eq!(decided(&later, day(27)), Decision::Wait(day(28)));
}

#[test]
fn only_an_unused_claim_without_an_owner_expires() {
    let status = |status: &str| {
        json!({"status": {"conditions": [{"type": "Unused", "status": status,
        "lastTransitionTime": day(1).to_string()}]}})
    };
    let owned = json!({"metadata": {"ownerReferences": [
        {"apiVersion": "example.com/v1", "kind": "Database", "name": "d", "uid": "o"}]}});
    let deleting = json!({"metadata": {"deletionTimestamp": day(2).to_string()}});
    for (changes, left) in [
        (status("False"), LeaveReason::Used),
        (status("Unknown"), LeaveReason::Used),
        (json!({"status": {"conditions": null}}), LeaveReason::Used),
        (owned, LeaveReason::Owned),
        (deleting, LeaveReason::NotBound),
        (json!({"status": {"phase": "Lost"}}), LeaveReason::NotBound),
        (
            json!({"status": {"phase": "Pending"}}),
            LeaveReason::NotBound,
        ),
        (annotated(EXPIRE_UNUSED, "off"), LeaveReason::NotRequested),
        (annotated(EXPIRE_UNUSED, "0"), LeaveReason::NotRequested),
        (annotated(EXPIRE_UNUSED, "soon"), LeaveReason::Unreadable),
        (annotated(EXPIRE_UNUSED, ""), LeaveReason::Unreadable),
    ] {
        let plain = claim(changes.clone());
        assert_eq!(decided(&plain, day(25)), Decision::Leave(left), "{changes}");
        let mut announced = changes.clone();
        json_patch::merge(&mut announced, &annotated(EXPIRES_AT, &day(21).to_string()));
        let expected = if plain.deleting {
            Decision::Leave(left)
        } else {
            Decision::Cancel(Some(left))
        };
        assert_eq!(decided(&claim(announced), day(25)), expected, "{changes}");
    }
}

#[test]
fn the_annotation_of_the_claim_counts_before_that_of_the_class() {
    let own = claim(annotated(EXPIRE_UNUSED, "10d"));
    assert_eq!(decided(&own, day(2)), Decision::Wait(day(4)));
}

/// The decision about a volume with these changes and one change of the view, on the day on which
/// the announced claim expires.
fn changed(changes: Value, change: impl FnOnce(&mut View<'_>)) -> Decision {
    let (claim, volume, class) = (
        claim(annotated(EXPIRES_AT, &day(21).to_string())),
        volume(changes),
        class_with(json!({})),
    );
    let mut view = View {
        claim: &claim,
        volume: Some(&volume),
        class: Some(&class),
        used: false,
        observed: Some(day(1)),
        now: day(22),
    };
    change(&mut view);
    decide(&view)
}

#[test]
fn nothing_expires_that_is_used_or_was_not_watched() {
    let changed = |change: fn(&mut View<'_>)| changed(json!({}), change);
    assert_eq!(changed(|_| {}), Decision::Expire);
    let cancelled = |left| Decision::Cancel(Some(left));
    assert_eq!(
        changed(|view| view.used = true),
        cancelled(LeaveReason::Used)
    );
    let unrequested = cancelled(LeaveReason::NotRequested);
    assert_eq!(changed(|view| view.class = None), unrequested);
    let unwatched = Decision::Leave(LeaveReason::NotObserved);
    assert_eq!(changed(|view| view.observed = None), unwatched);
    // The cluster was watched since the tenth only, so the claim is due on the thirtieth, and the
    // announcement is void.
    let late = changed(|view| view.observed = Some(day(10)));
    assert_eq!(late, Decision::Cancel(None));
}
