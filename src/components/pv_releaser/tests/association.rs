//! Which volumes become ours.

use super::{
    Decision::{Associate, Leave, Release},
    Left::{Orphaned, OtherInstallation, Unlabeled},
    *,
};
use crate::objects::managed_by::{LEGACY_LABEL, PROVISIONER_LABEL};

/// The labels of a claim: the provisioner's, and ours.
fn both(provisioner: &str, releaser: &str) -> Value {
    json!({PROVISIONER_LABEL: provisioner, RELEASER_LABEL: releaser})
}

fn ours() -> Value {
    json!({PROVISIONER_LABEL: *US})
}

#[test]
fn volumes_are_associated_by_their_claims() {
    let bound = || unlabelled(phase("Bound"));
    table! { Options::default();
        "PR-01 the provisioner's label": bound(), known("1", ours()) => Associate;
        "PR-02 only ours": bound(), known("1", json!({RELEASER_LABEL: *US})) => Associate;
        "PR-03 both": bound(), known("1", both(&US, &US)) => Associate;
        "PR-04 ours is another's": bound(), known("1", both(&US, "you")) => Leave(Unlabeled);
        "PR-04 the provisioner's is another's": bound(), known("1", both("you", &US)) => Leave(Unlabeled);
        "PR-04 one is empty": bound(), known("1", both("", &US)) => Leave(Unlabeled);
        "PR-05 none": bound(), known("1", json!({"app": "x"})) => Leave(Unlabeled);
        "PR-16 another claim of that name": bound(), known("2", ours()) => Leave(Unlabeled);
        "PR-16 the same once Released": unlabelled(json!({})), known("2", ours()) => Leave(Orphaned);
        "PR-18 nobody was there at its birth": unlabelled(phase("Available")), known("1", ours()) => Associate;
        "PR-20 gone before anybody looked": unlabelled(json!({})), gone(ours()) => Associate;
        "PR-20 whatever the phase": bound(), gone(ours()) => Associate;
    }
}

/// PR-06
#[test]
fn volumes_that_are_labelled_for_others_are_never_touched() {
    for changes in [json!({}), phase("Bound"), phase("Available")] {
        for (key, value) in [
            (RELEASER_LABEL, "you"),
            (RELEASER_LABEL, ""),
            (LEGACY_LABEL, "you"),
        ] {
            let theirs = volume(changed(label(key, value), changes.clone()));
            for other in [NOTHING, known("1", ours()), gone(ours()), class(&US)] {
                let found = decided(&theirs, &other, &Options::default());
                assert_eq!(found, Leave(OtherInstallation), "{key} {value} {changes}");
            }
        }
    }
}

/// A claim that is there says more than one that is remembered, and a successor says nothing.
#[test]
fn the_claim_that_the_volume_means_decides() {
    let after = |claim: Claim| Else {
        claim: Some(claim),
        ..gone(ours())
    };
    table! { Options::default();
        "it lost its labels before its end": unlabelled(phase("Bound")), after(claim("1", json!(null))) => Leave(Unlabeled);
        "its successor has none": unlabelled(json!({})), after(claim("2", json!(null))) => Associate;
    }
}

#[test]
fn volumes_that_do_not_outlive_their_claims_are_not_associated() {
    let bound = |changes| unlabelled(changed(phase("Bound"), changes));
    table! { Options::default();
        "policy Delete": bound(policy("Delete")), known("1", ours()) => Leave(Unlabeled);
        "being deleted": bound(deleted()), known("1", ours()) => Leave(Unlabeled);
    }
}

#[test]
fn a_reservation_is_no_claim() {
    let reserved = |changes| unlabelled(changed(phase("Available"), changes));
    let by_name = json!({"spec": {"claimRef": {"uid": ""}}});
    table! { Options::default();
        "by name": reserved(by_name), known("", ours()) => Leave(Unlabeled);
    }
}

/// PR-08 and PR-10
#[test]
fn without_automatic_association_only_hands_label() {
    let by_hand = Options {
        disable_automatic_association: true,
        ..Options::default()
    };
    table! { by_hand;
        "PR-08 Bound": unlabelled(phase("Bound")), known("1", ours()) => Leave(Unlabeled);
        "PR-08 Released": unlabelled(json!({})), gone(ours()) => Leave(Orphaned);
        "PR-10": volume(json!({})), NOTHING => Release;
    }
}

/// PR-25
#[test]
fn the_legacy_label_counts_where_it_is_to() {
    let ignoring = Options {
        legacy_label: false,
        ..Options::default()
    };
    let claimed = || known("1", json!({LEGACY_LABEL: *US}));
    let own = || unlabelled(label(LEGACY_LABEL, &US));
    let theirs = || volume(label(LEGACY_LABEL, "you"));
    table! { Options::default();
        "on a volume": own(), NOTHING => Release;
        "on a claim": unlabelled(phase("Bound")), claimed() => Associate;
        "somebody else's, beside ours": theirs(), NOTHING => Leave(OtherInstallation);
    }
    table! { ignoring;
        "on a volume": own(), NOTHING => Leave(Orphaned);
        "on a claim": unlabelled(phase("Bound")), claimed() => Leave(Unlabeled);
        "somebody else's, beside ours": theirs(), NOTHING => Release;
    }
}

/// PR-26
#[test]
fn each_installation_serves_its_own() {
    let other = Options {
        id: "other".parse().expect("an id"),
        ..Options::default()
    };
    let (bound, theirs) = (
        unlabelled(phase("Bound")),
        json!({PROVISIONER_LABEL: "other"}),
    );
    table! { Options::default();
        "ours": volume(json!({})), NOTHING => Release;
        "theirs to be": bound, known("1", theirs.clone()) => Leave(Unlabeled);
        "theirs": volume(label(RELEASER_LABEL, "other")), NOTHING => Leave(OtherInstallation);
    }
    table! { other;
        "ours": volume(json!({})), NOTHING => Leave(OtherInstallation);
        "theirs to be": bound, known("1", theirs.clone()) => Associate;
        "theirs": volume(label(RELEASER_LABEL, "other")), NOTHING => Release;
    }
}
