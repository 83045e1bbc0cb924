//! Tests of which volumes are labelled as managed.

use super::{
    Decision::{Associate, Leave, Record, Release},
    LeaveReason::{Excluded, Orphaned, OtherInstallation, Unlabeled},
    *,
};
use crate::objects::{
    managed_by::{LEGACY_LABEL, PROVISIONER_LABEL},
    reuse::RESERVED_AT,
};

/// The managed-by labels of a claim: the label of pvc-provisioner, and that of pv-releaser.
fn both(provisioner: &str, releaser: &str) -> Value {
    json!({PROVISIONER_LABEL: provisioner, RELEASER_LABEL: releaser})
}

fn own_labels() -> Value {
    json!({PROVISIONER_LABEL: *US})
}

#[test]
fn volumes_are_associated_by_their_claims() {
    let bound = || unlabelled(phase("Bound"));
    table! { cluster();
        "PR-01 the provisioner's label": bound(), known("1", own_labels()) => Associate;
        "PR-02 only the releaser's label": bound(), known("1", json!({RELEASER_LABEL: *US})) => Associate;
        "PR-03 both": bound(), known("1", both(&US, &US)) => Associate;
        "PR-04 the releaser's label has another id": bound(), known("1", both(&US, "you")) => Leave(Unlabeled);
        "PR-04 the provisioner's label has another id": bound(), known("1", both("you", &US)) => Leave(Unlabeled);
        "PR-04 one is empty": bound(), known("1", both("", &US)) => Leave(Unlabeled);
        "PR-05 none": bound(), known("1", json!({"app": "x"})) => Leave(Unlabeled);
        "PR-16 another claim of that name": bound(), known("2", own_labels()) => Leave(Unlabeled);
        "PR-16 the same once Released": unlabelled(json!({})), known("2", own_labels()) => Leave(Orphaned);
        "PR-18 missed at its creation": unlabelled(phase("Available")), known("1", own_labels()) => Associate;
        "PR-20 claim deleted before the review": unlabelled(json!({})), gone(own_labels()) => Associate;
        "PR-20 whatever the phase": bound(), gone(own_labels()) => Associate;
    }
}

/// The namespace of the claim has opted out: the volume is neither labelled nor released nor
/// reported.
#[test]
fn volumes_of_excluded_namespaces_are_left_unchanged() {
    let outside = |other: Else| Else {
        excluded: true,
        ..other
    };
    let own = || volume(label(RELEASER_LABEL, &US));
    table! { cluster();
        "not labelled": unlabelled(phase("Bound")), outside(known("1", own_labels())) => Leave(Excluded);
        "nor after the deletion of the claim": unlabelled(json!({})), outside(gone(own_labels())) => Leave(Excluded);
        "not released": own(), outside(NOTHING) => Leave(Excluded);
        "released otherwise": own(), NOTHING => Release(Scope::Cluster, ());
        "not reported": unlabelled(json!({})), outside(known("2", own_labels())) => Leave(Excluded);
    }
}

/// Test case PR-06 of the specification.
#[test]
fn volumes_labelled_for_other_installations_are_left_unchanged() {
    for changes in [json!({}), phase("Bound"), phase("Available")] {
        for (key, value) in [
            (RELEASER_LABEL, "you"),
            (RELEASER_LABEL, ""),
            (LEGACY_LABEL, "you"),
        ] {
            let foreign = volume(changed(label(key, value), changes.clone()));
            for other in [
                NOTHING,
                known("1", own_labels()),
                gone(own_labels()),
                class(&US),
            ] {
                let found = decided(&foreign, &other, &cluster());
                assert_eq!(found, Leave(OtherInstallation), "{key} {value} {changes}");
            }
        }
    }
}

/// An existing claim takes precedence over a remembered deleted one; a recreated claim with another
/// uid does not count.
#[test]
fn the_claim_that_the_volume_means_decides() {
    let after = |claim: Claim| Else {
        claim: Some(claim),
        ..gone(own_labels())
    };
    table! { cluster();
        "it lost its labels before its end": unlabelled(phase("Bound")), after(claim("1", json!(null))) => Leave(Unlabeled);
        "its successor has none": unlabelled(json!({})), after(claim("2", json!(null))) => Associate;
    }
}

#[test]
fn volumes_that_do_not_outlive_their_claims_are_not_associated() {
    let bound = |changes| unlabelled(changed(phase("Bound"), changes));
    table! { cluster();
        "policy Delete": bound(policy("Delete")), known("1", own_labels()) => Leave(Unlabeled);
        "being deleted": bound(deleted()), known("1", own_labels()) => Leave(Unlabeled);
    }
}

#[test]
fn a_reservation_is_no_claim() {
    let reserved = |changes| unlabelled(changed(phase("Available"), changes));
    let by_name = json!({"spec": {"claimRef": {"uid": ""}}});
    table! { cluster();
        "by name": reserved(by_name), known("", own_labels()) => Leave(Unlabeled);
    }
}

/// A claim without a label may get a volume that waits for a claim of its namespace.
#[test]
fn a_volume_says_only_while_it_is_reserved_that_it_is() {
    let reserved = json!({"metadata": {"annotations": {RESERVED_AT: "2026-01-01T00:00:00Z"}}});
    let bound = |changes| unlabelled(changed(phase("Bound"), changes));
    table! { cluster();
        "reserved before": bound(reserved.clone()), known("1", json!(null)) => Record;
        "without its claim": bound(reserved.clone()), NOTHING => Record;
        "never reserved": bound(json!({})), known("1", json!(null)) => Leave(Unlabeled);
        "not Bound yet": unlabelled(changed(phase("Available"), reserved)), known("1", json!(null)) => Leave(Unlabeled);
    }
}

/// Test cases PR-08 and PR-10 of the specification.
#[test]
fn without_automatic_association_no_volume_is_labelled() {
    let manual = Options {
        disable_automatic_association: true,
        ..cluster()
    };
    table! { manual;
        "PR-08 Bound": unlabelled(phase("Bound")), known("1", own_labels()) => Leave(Unlabeled);
        "PR-08 Released": unlabelled(json!({})), gone(own_labels()) => Leave(Orphaned);
        "PR-10": volume(json!({})), NOTHING => Release(Scope::Cluster, ());
    }
}

/// Test case PR-25 of the specification.
#[test]
fn the_legacy_label_counts_where_it_is_to() {
    let ignoring = Options {
        legacy_label: false,
        ..cluster()
    };
    let claimed = || known("1", json!({LEGACY_LABEL: *US}));
    let own = || unlabelled(label(LEGACY_LABEL, &US));
    let foreign = || volume(label(LEGACY_LABEL, "you"));
    table! { cluster();
        "on a volume": own(), NOTHING => Release(Scope::Cluster, ());
        "on a claim": unlabelled(phase("Bound")), claimed() => Associate;
        "label of another installation": foreign(), NOTHING => Leave(OtherInstallation);
    }
    table! { ignoring;
        "on a volume": own(), NOTHING => Leave(Orphaned);
        "on a claim": unlabelled(phase("Bound")), claimed() => Leave(Unlabeled);
        "label of another installation": foreign(), NOTHING => Release(Scope::Cluster, ());
    }
}

/// Test case PR-26 of the specification.
#[test]
fn each_installation_serves_its_own() {
    let other = Options {
        id: "other".parse().expect("an id"),
        ..cluster()
    };
    let (bound, foreign) = (
        unlabelled(phase("Bound")),
        json!({PROVISIONER_LABEL: "other"}),
    );
    table! { cluster();
        "own volume": volume(json!({})), NOTHING => Release(Scope::Cluster, ());
        "claim of the other installation": bound, known("1", foreign.clone()) => Leave(Unlabeled);
        "volume of the other installation": volume(label(RELEASER_LABEL, "other")), NOTHING => Leave(OtherInstallation);
    }
    table! { other;
        "own volume": volume(json!({})), NOTHING => Leave(OtherInstallation);
        "claim of the other installation": bound, known("1", foreign.clone()) => Associate;
        "volume of the other installation": volume(label(RELEASER_LABEL, "other")), NOTHING => Release(Scope::Cluster, ());
    }
}
