//! Tests of what the rule decides in each state of a volume.

use super::{FINALIZER, claim, record, recorded, requesting_claim, view, volume};
use crate::{
    components::pvc_trash::rule::{Decision, LeaveReason, View, decide, record_at_creation},
    objects::{
        Volume,
        expiry::EXPIRES_AT,
        trash::{OriginalPolicy, TRASH},
        undelete_window::{NamespaceWindow, UNDELETE_WINDOW, Window},
        volume::Phase,
        volume::ReclaimPolicy,
    },
};
use serde_json::json;

const DELETED: &str = "2026-01-01T00:00:00Z";
const ENDS: &str = "2026-01-01T01:00:00Z";

fn in_trash(changes: serde_json::Value) -> Volume {
    let mut record = record("1", json!({"deletedAt": DELETED}));
    json_patch::merge(&mut record, &changes);
    recorded("Released", &record)
}

fn decided(volume: &Volume) -> Decision {
    decide(&view(volume, None))
}

#[test]
fn a_bound_volume_of_the_class_is_enabled() {
    let (bound, claim) = (volume(json!({})), claim(json!({})));
    let Decision::Record(record) = decide(&view(&bound, Some(&claim))) else {
        unreachable!("it is enabled");
    };
    assert_eq!(
        (record.policy, record.window_seconds),
        (OriginalPolicy::Delete, 3600)
    );
    assert_eq!(
        (record.finalizers, &*record.claim.uid),
        (vec![FINALIZER.to_owned()], "1")
    );
    let retained = volume(json!({"spec": {"persistentVolumeReclaimPolicy": "Retain"}}));
    let Decision::Record(record) = decide(&view(&retained, Some(&claim))) else {
        unreachable!("it is recorded");
    };
    assert_eq!(
        (record.policy, record.finalizers),
        (OriginalPolicy::Retain, Vec::new())
    );
}

/// The trash is not enabled for a Released volume: with the policy Delete, its data may be deleted
/// already.
#[test]
fn only_a_bound_volume_is_enabled() {
    for phase in ["Available", "Pending", "Released", "Failed"] {
        let other = volume(json!({"status": {"phase": phase}}));
        assert_eq!(
            decided(&other),
            Decision::Leave(LeaveReason::NotEnabled),
            "{phase}"
        );
    }
    let recycled = volume(json!({"spec": {"persistentVolumeReclaimPolicy": "Recycle"}}));
    assert_eq!(decided(&recycled), Decision::Leave(LeaveReason::NotEnabled));
    let deleting = volume(json!({"metadata": {"deletionTimestamp": DELETED}}));
    assert_eq!(decided(&deleting), Decision::Leave(LeaveReason::Deleting));
}

#[test]
fn a_claim_shortens_the_window_or_opts_out() {
    let bound = volume(json!({}));
    let window = |value: &str| {
        let own = claim(json!({"metadata": {"annotations": {UNDELETE_WINDOW: value}}}));
        match decide(&view(&bound, Some(&own))) {
            Decision::Record(record) => Some(record.window_seconds),
            _ => None,
        }
    };
    assert_eq!(
        [window("10m"), window("2h"), window("0")],
        [Some(600), Some(3600), None]
    );
    // The annotation of a claim does not remove the record: it sets the window to zero.
    let enabled = recorded("Bound", &record("1", json!({})));
    let own = claim(json!({"metadata": {"annotations": {UNDELETE_WINDOW: "0"}}}));
    let Decision::Record(record) = decide(&view(&enabled, Some(&own))) else {
        unreachable!("the window changes");
    };
    assert_eq!(record.window_seconds, 0);
}

/// The claim can shorten the window that its namespace has lengthened, and opt out of the trash by
/// `0`.
#[test]
fn a_namespace_lengthens_the_window_that_the_claim_shortens() {
    let bound = volume(json!({}));
    let window = |own: Option<&str>| {
        let own = claim(json!({"metadata": {"annotations": {UNDELETE_WINDOW: own}}}));
        let view = View {
            longest: Some(super::HOUR * 5),
            namespace: NamespaceWindow::For(super::HOUR * 3),
            ..view(&bound, Some(&own))
        };
        let created = record_at_creation(&view).map(|record| record.window_seconds);
        let decided = match decide(&view) {
            Decision::Record(record) => Some(record.window_seconds),
            _ => None,
        };
        assert_eq!(created, decided);
        decided.map(|seconds| seconds / 3600)
    };
    let windows = [None, Some("2h"), Some("4h"), Some("0")].map(window);
    assert_eq!(windows, [Some(3), Some(2), Some(3), None]);
}

/// I4: a namespace that could not be read changes no window.
#[test]
fn an_unread_namespace_changes_no_recorded_window() {
    let claim = claim(json!({}));
    let lengthened = recorded("Bound", &record("1", json!({"windowSeconds": 10_800})));
    let bound = volume(json!({}));
    let seen = |volume, namespace| {
        let view = View {
            longest: Some(super::HOUR * 5),
            namespace,
            ..view(volume, Some(&claim))
        };
        match decide(&view) {
            Decision::Record(record) => Some(record.window_seconds),
            _ => None,
        }
    };
    assert_eq!(seen(&lengthened, NamespaceWindow::Unknown), None);
    assert_eq!(seen(&bound, NamespaceWindow::Unknown), Some(3600));
    assert_eq!(seen(&lengthened, NamespaceWindow::Unset), Some(3600));
}

/// The claim is deleted shortly before its volume becomes Released. The window that the claim
/// requested must not be replaced by that of its class.
#[test]
fn without_its_claim_a_bound_volume_keeps_its_record() {
    let shorter = recorded("Bound", &record("1", json!({"windowSeconds": 60})));
    assert_eq!(decided(&shorter), Decision::Leave(LeaveReason::Enabled));
    let recreated = claim(json!({"metadata": {"uid": "2"}}));
    let decision = decide(&view(&shorter, Some(&recreated)));
    assert_eq!(decision, Decision::Leave(LeaveReason::Enabled));
    // The deleted claim may have opted out of the trash.
    assert_eq!(
        decided(&volume(json!({}))),
        Decision::Leave(LeaveReason::NotEnabled)
    );
}

#[test]
fn the_window_zero_of_a_class_changes_no_record() {
    let (enabled, claim) = (recorded("Bound", &record("1", json!({}))), claim(json!({})));
    let none = View {
        class: Some(Window::For(std::time::Duration::ZERO)),
        ..view(&enabled, Some(&claim))
    };
    assert_eq!(decide(&none), Decision::Leave(LeaveReason::Enabled));
    let bound = volume(json!({}));
    let new = View {
        volume: &bound,
        ..none
    };
    assert_eq!(decide(&new), Decision::Leave(LeaveReason::NotEnabled));
}

/// The webhooks are not called in an excluded namespace, so no user could restore the claim. A
/// volume that is recorded already is kept.
#[test]
fn an_excluded_namespace_gets_no_window() {
    let (bound, claim) = (volume(json!({})), claim(json!({})));
    let enabled = recorded("Bound", &record("1", json!({"windowSeconds": 60})));
    let excluded = |volume| View {
        excluded: true,
        ..view(volume, Some(&claim))
    };
    assert_eq!(
        decide(&excluded(&bound)),
        Decision::Leave(LeaveReason::NotEnabled)
    );
    assert_eq!(record_at_creation(&excluded(&bound)), None);
    assert!(matches!(decide(&excluded(&enabled)), Decision::Record(_)));
}

/// An administrator who sets the policy Delete again wants the data to be deleted with the claim.
#[test]
fn the_policy_delete_of_a_volume_that_had_retain_stays() {
    let text = record("1", json!({"policy": "Retain"}));
    let mut changed = recorded("Bound", &text);
    changed.reclaim_policy = ReclaimPolicy::Delete;
    let claim = claim(json!({}));
    let decision = decide(&view(&changed, Some(&claim)));
    assert_eq!(decision, Decision::Leave(LeaveReason::NotEnabled));
}

#[test]
fn a_failed_deletion_is_a_purge_that_goes_on() {
    let mut failed = recorded("Failed", &record("1", json!({"deletedAt": DELETED})));
    failed.reclaim_policy = ReclaimPolicy::Delete;
    assert_eq!(decided(&failed), Decision::Leave(LeaveReason::Purging));
}

#[test]
fn a_record_is_written_again_only_where_it_changes() {
    let claim = claim(json!({}));
    let written = |record: &serde_json::Value| {
        let bound = recorded("Bound", record);
        matches!(decide(&view(&bound, Some(&claim))), Decision::Record(_))
    };
    assert!(!written(&record("1", json!({}))));
    for change in [
        json!({"windowSeconds": 60}),
        json!({"claim": {"uid": "0"}}),
        json!({"claim": {"namespaceUid": null}}),
        json!({"deletedAt": DELETED}),
        json!({"reservedAt": DELETED}),
    ] {
        assert!(written(&record("1", change.clone())), "{change}");
    }
}

/// The record of an earlier claim keeps the original policy, also after the class has lost its
/// annotation.
#[test]
fn a_restored_volume_gets_a_record_for_its_new_claim() {
    let bound = recorded(
        "Bound",
        &record("0", json!({"deletedAt": DELETED, "reservedAt": DELETED})),
    );
    for class in [Some(Window::For(super::HOUR)), None] {
        let view = View {
            class,
            ..view(&bound, None)
        };
        let Decision::Record(record) = decide(&view) else {
            unreachable!("the record is for another claim");
        };
        assert_eq!(
            (&*record.claim.uid, record.policy),
            ("1", OriginalPolicy::Delete)
        );
        assert_eq!((record.deleted_at, record.reserved_at), (None, None));
    }
}

/// An earlier claim may have shortened its window, and the later one may not have. The longer
/// window applies until the watch shows what the later claim requests.
#[test]
fn a_void_record_shortens_no_window() {
    let window = |recorded_window: u64, class, phase: &str, own: Option<&str>| {
        let void = record("0", json!({"windowSeconds": recorded_window}));
        let later = claim(json!({"metadata": {"annotations": {UNDELETE_WINDOW: own}}}));
        let volume = recorded(phase, &void);
        let view = View {
            class,
            longest: Some(super::HOUR * 5),
            namespace: NamespaceWindow::For(super::HOUR * 3),
            ..view(&volume, own.map(|_| &later))
        };
        match decide(&view) {
            Decision::Record(record) | Decision::MoveToTrash(record) => record.window_seconds,
            other => unreachable!("{other:?}"),
        }
    };
    let class = Some(Window::For(super::HOUR));
    for phase in ["Bound", "Released"] {
        assert_eq!(window(60, class, phase, None), 3 * 3600, "{phase}");
        assert_eq!(window(60, None, phase, None), 60, "{phase}");
        assert_eq!(window(20_000, class, phase, None), 20_000, "{phase}");
    }
    assert_eq!(window(60, Some(Window::Off), "Released", None), 60);
    assert_eq!(window(60, class, "Bound", Some("2h")), 2 * 3600);
    assert_eq!(window(20_000, class, "Bound", Some("2h")), 2 * 3600);
    assert_eq!(window(60, class, "Released", Some("2h")), 2 * 3600);
}

#[test]
fn only_off_disables_and_never_under_a_claim_that_is_or_may_be_deleted() {
    let enabled = recorded("Bound", &record("1", json!({})));
    let (existing_claim, going) = (
        claim(json!({})),
        claim(json!({"metadata": {"deletionTimestamp": DELETED}})),
    );
    let another = claim(json!({"metadata": {"uid": "2"}}));
    let announced = claim(json!({"metadata": {"annotations": {EXPIRES_AT: DELETED}}}));
    let off = Some(Window::Off);
    for (class, claim, expected) in [
        (off, Some(&existing_claim), Decision::Disable),
        (off, Some(&going), Decision::Leave(LeaveReason::Terminating)),
        (
            off,
            Some(&announced),
            Decision::Leave(LeaveReason::Announced),
        ),
        (
            off,
            Some(&another),
            Decision::Leave(LeaveReason::Terminating),
        ),
        (off, None, Decision::Leave(LeaveReason::Terminating)),
        (
            None,
            Some(&existing_claim),
            Decision::Leave(LeaveReason::Enabled),
        ),
    ] {
        let view = View {
            class,
            ..view(&enabled, claim)
        };
        assert_eq!(decide(&view), expected);
    }
    let never = volume(json!({}));
    let view = View {
        class: off,
        ..view(&never, Some(&existing_claim))
    };
    assert_eq!(decide(&view), Decision::Leave(LeaveReason::NotEnabled));
}

#[test]
fn the_window_begins_when_the_deletion_is_seen() {
    let Decision::MoveToTrash(moved) = decided(&recorded("Released", &record("1", json!({}))))
    else {
        unreachable!("the claim is deleted");
    };
    assert_eq!(moved.claim.namespace_uid.as_deref(), Some("n"));
    let until = ENDS.parse().expect("a time");
    let keep = Decision::Keep {
        until,
        requested: false,
    };
    assert_eq!(decided(&in_trash(json!({}))), keep);
}

/// The volume was restored, and its new claim was deleted before Volume Warden wrote the record for
/// that claim.
#[test]
fn the_record_of_an_earlier_claim_ends_no_window() {
    let void = json!({"deletedAt": DELETED, "claim": {"uid": "0"}, "reservedAt": DELETED,
        "returnedAt": DELETED, "unbindable": ["7"], "windowSeconds": 60});
    let Decision::MoveToTrash(moved) = decided(&in_trash(void)) else {
        unreachable!("the record is void");
    };
    assert_eq!(moved.window_seconds, 3600, "the window of the class");
    assert_eq!((moved.returned_at, moved.unbindable.len()), (None, 0));
    // A live read compares the uid of the namespace with the present namespace.
    let claim = (&*moved.claim.uid, moved.claim.namespace_uid.as_deref());
    assert_eq!(claim, ("1", Some("n")));
    assert_eq!((moved.deleted_at, moved.reserved_at), (None, None));
}

#[test]
fn a_request_to_purge_counts_for_one_claim() {
    let requested = |uid: &str| {
        let mut volume = in_trash(json!({}));
        let trash = volume.trash.as_mut().expect("a record");
        trash.purge = Some(uid.into());
        matches!(
            decided(&volume),
            Decision::Keep {
                requested: true,
                ..
            }
        )
    };
    assert_eq!(
        [requested("1"), requested("0"), requested("")],
        [true, false, false]
    );
}

#[test]
fn a_restore_comes_before_a_purge() {
    let requesting_claim = requesting_claim();
    let trash = in_trash(json!({}));
    let decided = |volume| {
        decide(&View {
            requesting_claim: Some(&requesting_claim),
            ..view(volume, None)
        })
    };
    assert_eq!(decided(&trash), Decision::Restore(requesting_claim.clone()));
    // A purged volume is left unchanged, because its provisioner may be deleting the data.
    let purged = volume(json!({
        "metadata": {"annotations": {
            TRASH: record("1", json!({"deletedAt": DELETED})).to_string(),
        }},
        "status": {"phase": "Released"},
    }));
    assert_eq!(decided(&purged), Decision::Leave(LeaveReason::Purging));
}

#[test]
fn what_was_retained_is_never_purged() {
    let kept = in_trash(json!({"policy": "Retain"}));
    assert_eq!(decided(&kept), Decision::Leave(LeaveReason::Kept));
}

#[test]
fn a_reserved_volume_waits_for_its_claim_only() {
    let mut reserved = recorded(
        "Available",
        &record(
            "0",
            json!({"deletedAt": DELETED, "reservedAt": DELETED, "reservedFor": "1"}),
        ),
    );
    let claim_ref = reserved.claim_ref.as_mut().expect("a claim");
    claim_ref.uid = "".into();
    let pending = claim(json!({"status": {"phase": "Pending"}}));
    let going =
        claim(json!({"metadata": {"deletionTimestamp": DELETED}, "status": {"phase": "Pending"}}));
    let elsewhere = claim(json!({"spec": {"volumeName": "other"}}));
    let stranger = claim(json!({"metadata": {"uid": "2"}, "status": {"phase": "Pending"}}));
    for (claim, expected) in [
        (Some(&pending), Decision::AwaitBinding),
        (Some(&stranger), Decision::ReturnToTrash),
        (Some(&going), Decision::ReturnToTrash),
        (Some(&elsewhere), Decision::ReturnToTrash),
        (None, Decision::ReturnToTrash),
    ] {
        assert_eq!(decide(&view(&reserved, claim)), expected);
        // kube-controller-manager does not run.
        let released = Volume {
            phase: Phase::Released,
            ..reserved.clone()
        };
        assert_eq!(decide(&view(&released, claim)), expected);
    }
    // An administrator reserved the volume.
    let record = record("0", json!({"deletedAt": DELETED}));
    let mut manual = recorded("Available", &record);
    manual.claim_ref = reserved.claim_ref;
    assert_eq!(decided(&manual), Decision::Leave(LeaveReason::NotEnabled));
}

#[test]
fn an_unreadable_record_changes_nothing() {
    for phase in ["Bound", "Released", "Available"] {
        let broken = recorded(phase, &json!("?"));
        assert_eq!(
            decided(&broken),
            Decision::Leave(LeaveReason::Unreadable),
            "{phase}"
        );
    }
}

#[test]
fn a_new_volume_is_recorded_only_if_it_would_be_deleted() {
    let created = |changes| {
        let volume = volume(changes);
        record_at_creation(&view(&volume, None)).is_some()
    };
    assert!(created(json!({"status": null})));
    assert!(!created(
        json!({"spec": {"persistentVolumeReclaimPolicy": "Retain"}})
    ));
    assert!(!created(json!({"spec": {"claimRef": null}})));
    let volume = volume(json!({}));
    for class in [
        None,
        Some(Window::Off),
        Some(Window::For(std::time::Duration::ZERO)),
    ] {
        let view = View {
            class,
            ..view(&volume, None)
        };
        assert_eq!(record_at_creation(&view), None, "{class:?}");
    }
}
