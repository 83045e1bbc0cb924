//! Tests that nothing expires whose data could not be restored.

use super::{annotated, changed, claim, class_with, day, volume};
use crate::{
    components::pvc_expiry::{
        reports::of_class,
        restorable::{self, Obstacle},
        rule::{Decision, LeaveReason, View, decide},
    },
    objects::{
        expiry::{EXPIRE_UNUSED, EXPIRES_AT},
        trash::{PURGE, TRASH},
        undelete_window::UNDELETE_WINDOW,
    },
};
use serde_json::json;

#[test]
fn nothing_expires_that_could_not_be_restored() {
    let record = |uid: &str, seconds: u64| {
        let record = json!({"policy": "Delete", "windowSeconds": seconds,
            "claim": {"namespace": "shop", "name": "data", "uid": uid}});
        json!({"metadata": {"annotations": {TRASH: record.to_string()}}})
    };
    let kept = |obstacle| Decision::Cancel(Some(LeaveReason::NoWindow(obstacle)));
    let deleting = json!({"metadata": {"deletionTimestamp": day(2).to_string()}});
    let policy = json!({"spec": {"persistentVolumeReclaimPolicy": "Delete"}});
    let unrecorded = json!({"metadata": {"annotations": null}});
    for (changes, obstacle) in [
        (record("another", 3600), Obstacle::Unrecorded),
        (record("c", 0), Obstacle::ClaimWindow),
        (unrecorded.clone(), Obstacle::Unrecorded),
        (annotated(PURGE, "c"), Obstacle::Purge),
        (annotated(TRASH, "unreadable"), Obstacle::Unrecorded),
        (deleting, Obstacle::Volume),
        (policy, Obstacle::Policy),
        (
            json!({"spec": {"claimRef": {"uid": "another"}}}),
            Obstacle::Volume,
        ),
        (json!({"status": {"phase": "Released"}}), Obstacle::Volume),
    ] {
        let decision = changed(changes.clone(), |_| {});
        assert_eq!(decision, kept(obstacle), "{changes}");
    }
    let absent = changed(json!({}), |view| view.volume = None);
    assert_eq!(absent, kept(Obstacle::Volume));
    // pvc-trash writes no record for a claim that was created with this annotation.
    let out = claim(annotated(UNDELETE_WINDOW, "0"));
    let found = restorable::record(&volume(unrecorded), &out).map(drop);
    assert_eq!(found, Err(Obstacle::ClaimWindow));
    // The annotation was set later, and pvc-trash has not changed its record yet.
    let found = restorable::record(&volume(json!({})), &out).map(drop);
    assert_eq!(found, Err(Obstacle::ClaimWindow));
}

/// The record stays on the volume for a while after the class was set to `off`, and without limit
/// after its window was removed.
#[test]
fn without_a_window_of_the_class_nothing_expires_as_its_event_says() {
    let own = claim(annotated(EXPIRE_UNUSED, "10d"));
    let plain = claim(json!({}));
    let announced = claim(annotated(EXPIRES_AT, &day(21).to_string()));
    let volume = volume(json!({}));
    for (window, grants) in [
        (json!("72h"), true),
        (json!("off"), false),
        (json!("0"), false),
        (json!("0s"), false),
        (json!("soon"), false),
        (json!(null), false),
    ] {
        let class = class_with(json!({UNDELETE_WINDOW: window}));
        assert_eq!(of_class("fast", &class).is_none(), grants, "{window}");
        let decided = |claim| {
            decide(&View {
                claim,
                volume: Some(&volume),
                class: Some(&class),
                used: false,
                observed: Some(day(1)),
                now: day(22),
            })
        };
        let no_window = LeaveReason::NoWindow(Obstacle::ClassWindow);
        let week_later = "2026-01-29T00:00:00Z".parse().expect("a time");
        let expected = if grants {
            [
                Decision::Announce(week_later),
                Decision::Announce(week_later),
                Decision::Expire,
            ]
        } else {
            [
                Decision::Leave(no_window),
                Decision::Leave(no_window),
                Decision::Cancel(Some(no_window)),
            ]
        };
        assert_eq!(
            [&own, &plain, &announced].map(decided),
            expected,
            "{window}"
        );
    }
}

/// Its own annotation does not let a claim expire whose class was deleted or has no annotation.
#[test]
fn without_a_class_nothing_expires() {
    let mut own = annotated(EXPIRE_UNUSED, "10d");
    json_patch::merge(&mut own, &annotated(EXPIRES_AT, &day(21).to_string()));
    let (own, volume, class) = (claim(own), volume(json!({})), class_with(json!({})));
    let decided = |class| {
        decide(&View {
            claim: &own,
            volume: Some(&volume),
            class,
            used: false,
            observed: Some(day(1)),
            now: day(22),
        })
    };
    assert_eq!(decided(Some(&class)), Decision::Expire);
    let no_window = LeaveReason::NoWindow(Obstacle::ClassWindow);
    assert_eq!(decided(None), Decision::Cancel(Some(no_window)));
}

/// pvc-trash removes such a request, or the request does not delete the data.
#[test]
fn a_purge_request_that_deletes_no_data_of_the_claim_prevents_nothing() {
    let other = changed(annotated(PURGE, "another"), |_| {});
    assert_eq!(other, Decision::Expire, "for another claim");
    let record = json!({"policy": "Retain", "windowSeconds": 3600,
        "claim": {"namespace": "shop", "name": "data", "uid": "c"}});
    let annotations = json!({TRASH: record.to_string(), PURGE: "c"});
    let kept = changed(json!({"metadata": {"annotations": annotations}}), |_| {});
    assert_eq!(kept, Decision::Expire, "the data is never deleted");
}
