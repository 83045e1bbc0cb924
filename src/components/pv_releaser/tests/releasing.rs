//! Tests of which volumes are released, and which are orphans.

use super::{
    Decision::{Associate, Leave, Release},
    LeaveReason::{
        Attached, Deleting, Freed, InTrash, InUse, NotRetained, Orphaned, OtherInstallation,
        Unlabeled, Unwatched,
    },
    *,
};
use crate::objects::{managed_by::PROVISIONER_LABEL, reuse::CLAIM_NAMESPACE, trash::TRASH};

/// Changes of a volume that set `spec.claimRef` to these fields.
fn claim_ref(changes: Value) -> Value {
    json!({"spec": {"claimRef": changes}})
}

#[test]
fn managed_volumes_are_released_once_they_are_free() {
    let no_uid = || claim_ref(json!({"uid": null}));
    let no_policy = json!({"spec": {"persistentVolumeReclaimPolicy": null}});
    table! { cluster();
        "PR-09, PR-17": volume(json!({})), NOTHING => Release(Scope::Cluster, ());
        "PR-11 freed already": volume(claim_ref(json!(null))), NOTHING => Leave(Freed);
        "PR-13 policy Delete": volume(policy("Delete")), NOTHING => Leave(NotRetained);
        "PR-13 no policy": volume(no_policy), NOTHING => Leave(NotRetained);
        "PR-13 being deleted": volume(deleted()), NOTHING => Leave(Deleting);
        "PR-16 whatever a later claim of that name says": volume(json!({})), known("2", json!(null)) => Release(Scope::Cluster, ());
        "PR-27 whatever is not known of its claim": volume(json!({})), unwatched() => Release(Scope::Cluster, ());
        "PR-30 freed softly": volume(no_uid()), NOTHING => Leave(Freed);
        "attached": volume(json!({})), attached() => Leave(Attached);
    }
}

/// Test case PR-12 of the specification.
#[test]
fn volumes_that_are_not_released_are_in_use() {
    for each in ["Bound", "Available", "Pending", "Failed", "Unheard-of"] {
        let found = decided(&volume(phase(each)), &NOTHING, &cluster());
        assert_eq!(found, Leave(InUse), "{each}");
    }
}

/// Test case PR-19 of the specification.
#[test]
fn orphans_are_distinguished_from_volumes_in_use() {
    table! { cluster();
        "its claim is gone": unlabelled(json!({})), NOTHING => Leave(Orphaned);
        "its claim is there": unlabelled(json!({})), known("1", json!(null)) => Leave(Unlabeled);
        "PR-27 its claim may be there": unlabelled(json!({})), unwatched() => Leave(Unlabeled);
        "in another phase": unlabelled(phase("Failed")), NOTHING => Leave(Unlabeled);
        "policy Delete": unlabelled(policy("Delete")), NOTHING => Leave(Unlabeled);
        "being deleted": unlabelled(deleted()), NOTHING => Leave(Unlabeled);
        "released manually": unlabelled(claim_ref(json!(null))), NOTHING => Leave(Unlabeled);
        "another installation's by class": unlabelled(json!({})), class("you") => Leave(Unlabeled);
    }
}

/// PR-19 and PR-31: a Released volume is evaluated by the current class.
#[test]
fn a_class_assigns_its_volumes_where_enabled() {
    let may = Options {
        associate_by_storage_class: true,
        ..cluster()
    };
    let claimed = Else {
        class: class(&US).class,
        ..known("1", json!({PROVISIONER_LABEL: *US}))
    };
    let attached = Else {
        attachment: Attachment::Attached,
        ..class(&US)
    };
    table! { may;
        "own class": unlabelled(json!({})), class(&US) => Release(Scope::Cluster, ());
        "another installation's": unlabelled(json!({})), class("you") => Leave(Unlabeled);
        "no class with an id": unlabelled(json!({})), NOTHING => Leave(Orphaned);
        "labelled for another installation": volume(label(RELEASER_LABEL, "you")), class(&US) => Leave(OtherInstallation);
        "labelled for us, and another's by class": volume(json!({})), class("you") => Release(Scope::Cluster, ());
        "Bound": unlabelled(phase("Bound")), class(&US) => Leave(InUse);
        "policy Delete, as of most classes": unlabelled(policy("Delete")), class(&US) => Leave(Unlabeled);
        "its claim gets it labelled": unlabelled(phase("Bound")), claimed => Associate;
        "attached": unlabelled(json!({})), attached => Leave(Attached);
    }
    table! { cluster();
        "it may not": unlabelled(json!({})), class(&US) => Leave(Orphaned);
        "it may not, and is another's": unlabelled(json!({})), class("you") => Leave(Unlabeled);
    }
}

/// pvc-trash keeps the data for a user who undoes the deletion of the claim, even if its record
/// cannot be read. The next claim must not get the volume.
#[test]
fn volumes_that_pvc_trash_keeps_are_left_unchanged() {
    let may = Options {
        associate_by_storage_class: true,
        ..cluster()
    };
    let kept = |changes| {
        let trash = json!({"metadata": {"annotations": {TRASH: "{}"}}});
        changed(trash, changes)
    };
    table! { may;
        "labelled": volume(kept(json!({}))), NOTHING => Leave(InTrash);
        "assigned by its class": unlabelled(kept(json!({}))), class(&US) => Leave(InTrash);
        "its claim is managed": unlabelled(kept(phase("Bound"))), known("1", json!({PROVISIONER_LABEL: *US})) => Leave(InTrash);
        "no orphan": unlabelled(kept(json!({}))), NOTHING => Leave(InTrash);
        "without the annotation": volume(json!({})), NOTHING => Release(Scope::Cluster, ());
    }
}

/// Nothing would end its reservation when the namespace is deleted, or give it to a claim.
#[test]
fn a_volume_for_an_unwatched_namespace_stays_released() {
    let recorded = || json!({"metadata": {"annotations": {CLAIM_NAMESPACE: "ns/n/1"}}});
    table! { Options::default();
        "watched": volume(recorded()), NOTHING => Release(Scope::Namespace, ());
        "unwatched": volume(recorded()), unwatched() => Leave(Unwatched);
        "without a record": volume(json!({})), unwatched() => Leave(Unwatched);
        "Bound": volume(phase("Bound")), unwatched() => Leave(InUse);
    }
}
