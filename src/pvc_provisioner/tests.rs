//! The rule, case by case, and how annotations are read.

use super::{
    asked::{asked, volume_for, wish_for},
    reasons,
    rule::{Decision, Terms, User, View, decide},
};
use crate::objects::{
    Claim, ControllerId, Wishes, claim::ClaimWire, managed_by::PROVISIONER_LABEL, pod::PodWire,
    wishes::PREFIX,
};
use serde_json::{Value, json};
use std::time::Duration;

const GRACE: Duration = Duration::from_secs(60);
const ID: &str = "dynamic-reclaimable-pvc-controllers";
pub(super) const TEMPLATE: &str =
    "{apiVersion: v1, kind: PersistentVolumeClaim, spec: {accessModes: [ReadWriteOnce]}}";

fn claim(changes: Value) -> Claim {
    let mut claim = json!({"metadata": {
        "name": "c", "namespace": "ns", "uid": "claim-uid", "resourceVersion": "1", "creationTimestamp": "2026-01-01T00:00:00Z", "labels": {PROVISIONER_LABEL: ID},
        "annotations": {"volume-warden.dev/awaiting-pod": "2026-01-01T00:00:00Z"},
    }});
    json_patch::merge(&mut claim, &changes);
    let wire: ClaimWire = serde_json::from_value(claim).expect("a claim");
    wire.into()
}

/// A pod that uses the claim, and where `asks` is the one it is made for; it has started unless it `waits`.
fn user(name: &str, asks: bool, waits: bool) -> User {
    User {
        deleting: false,
        started: !waits,
        created: 0,
        name: name.into(),
        uid: format!("{name}-uid").into(),
        asks: asks.then(|| "v".into()),
    }
}

fn in_words(decision: Decision<'_>) -> String {
    match decision {
        Decision::Leave(reason) => format!("leave {reason}"),
        Decision::Confirm => "confirm".into(),
        Decision::Create(user) => format!("create {}", user.name),
        Decision::Refuse(user, reason) => format!("refuse {} {reason}", user.name),
        Decision::Give(user) => format!("give {}", user.name),
        Decision::Keep => "keep".into(),
        Decision::Collect => "collect".into(),
        Decision::Later(left) => format!("later {}", left.as_secs()),
    }
}

/// `waited` is for how long the claim has been waiting, in seconds.
fn decided(claim: Option<&Claim>, users: &[User], confirmed: bool, waited: u64) -> String {
    decided_by(claim, users, confirmed, waited, false)
}

fn decided_by(
    claim: Option<&Claim>,
    users: &[User],
    confirmed: bool,
    waited: u64,
    admission_only: bool,
) -> String {
    let view = View {
        claim,
        users,
        confirmed,
        waited: Duration::from_secs(waited),
    };
    let terms = Terms {
        controller_id: &ControllerId::default(),
        grace: GRACE,
        admission_only,
    };
    in_words(decide(view, terms))
}

/// DP-01, DP-19, DP-20: only for a pod that waits, and only once it is known that there is none.
#[test]
fn a_claim_is_made_for_a_pod_that_waits() {
    let waits = [user("a", true, true)];
    assert_eq!(decided(None, &waits, false, 0), "confirm");
    assert_eq!(decided(None, &waits, true, 0), "create a");
    for users in [
        vec![],
        vec![user("a", true, false)],
        vec![user("a", false, true)],
    ] {
        assert_eq!(decided(None, &users, true, 0), "leave NotWanted");
    }
}

/// Who asked is known at admission only.
#[test]
fn where_requesters_are_authorized_the_background_makes_no_claim() {
    let waits = [user("a", true, true)];
    assert_eq!(decided_by(None, &waits, false, 0, true), "confirm");
    assert_eq!(
        decided_by(None, &waits, true, 0, true),
        "refuse a ErrRequesterUnknown"
    );
}

/// DP-17, DP-18.
#[test]
fn what_exists_is_used_and_what_is_going_is_waited_for() {
    let waits = [user("a", true, true)];
    let unmarked = claim(json!({"metadata": {"annotations": null}}));
    assert_eq!(decided(Some(&unmarked), &waits, false, 0), "leave Exists");
    let going = claim(json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}));
    assert_eq!(
        decided(Some(&going), &waits, false, 0),
        "refuse a ClaimStale"
    );
    assert_eq!(decided(Some(&going), &[], false, 999), "leave ClaimStale");
}

#[test]
fn a_marked_claim_is_given_to_the_pod_that_came_first() {
    let marked = claim(json!({}));
    let created = |name, created, waits| User {
        created,
        ..user(name, true, waits)
    };
    let mut users = vec![
        created("second", 2, true),
        created("first", 1, true),
        created("ended", 0, false),
        user("only-uses", false, true),
        User {
            deleting: true,
            ..user("going", true, true)
        },
    ];
    assert_eq!(decided(Some(&marked), &users, false, 0), "confirm");
    assert_eq!(decided(Some(&marked), &users, true, 0), "give first");
    users.retain(|user| user.started || user.deleting);
    assert_eq!(decided(Some(&marked), &users, true, 0), "give ended");
    users.retain(|user| user.deleting);
    assert_eq!(decided(Some(&marked), &users, true, 0), "give going");
}

#[test]
fn a_marked_claim_is_collected_when_nobody_comes_and_kept_when_another_does() {
    let marked = claim(json!({}));
    let another = [user("a", false, true)];
    for (waited, confirmed, alone, used) in [
        (0, false, "later 60", "later 60"),
        (59, true, "later 1", "later 1"),
        (60, false, "confirm", "confirm"),
        (60, true, "collect", "keep"),
        (999, true, "collect", "keep"),
    ] {
        let what = format!("{waited} {confirmed}");
        let claim = Some(&marked);
        assert_eq!(decided(claim, &[], confirmed, waited), alone, "{what}");
        assert_eq!(decided(claim, &another, confirmed, waited), used, "{what}");
    }
}

/// Only our own mark makes an orphan.
#[test]
fn other_claims_are_never_collected() {
    let owner = json!([{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u"}]);
    for (changes, what) in [
        (
            json!({"annotations": null}),
            "labelled by hand, or its owner was removed to keep the data",
        ),
        (json!({"labels": null}), "not ours"),
        (
            json!({"labels": {PROVISIONER_LABEL: "another"}}),
            "another's",
        ),
        (json!({"ownerReferences": owner}), "somebody's already"),
        (
            json!({"annotations": {"volume-warden.dev/awaiting-pod": "yes"}}),
            "marked by hand",
        ),
        (
            json!({"creationTimestamp": "2026-01-01T00:10:01Z"}),
            "restored or copied with the mark of an earlier claim",
        ),
    ] {
        let claim = claim(json!({"metadata": changes}));
        assert_eq!(
            decided(Some(&claim), &[], true, 9999),
            "leave Exists",
            "{what}"
        );
    }
}

fn wishes(annotations: &[(&str, &str)]) -> Wishes {
    let keyed = annotations.iter();
    let annotations: Value = keyed
        .map(|(key, value)| (format!("{PREFIX}{key}"), json!(value)))
        .collect::<serde_json::Map<_, _>>()
        .into();
    let volume = |name: &str| json!({"name": name, "persistentVolumeClaim": {"claimName": format!("{name}-claim")}});
    let pod: PodWire = serde_json::from_value(json!({
        "metadata": {"name": "p", "annotations": annotations},
        "spec": {"volumes": [volume("b"), volume("a"), {"name": "scratch", "emptyDir": {}}, {"name": "own", "ephemeral": {}}]},
        "status": {"phase": "Pending"},
    }))
    .expect("a pod");
    Wishes::of(&pod).expect("annotated")
}

fn told(annotations: &[(&str, &str)]) -> (Vec<String>, Vec<&'static str>) {
    let (claims, complaints) = asked(&wishes(annotations));
    let claims = claims.iter().map(|wish| wish.claim.to_string()).collect();
    let reasons = complaints
        .iter()
        .map(|complaint| complaint.reason)
        .collect();
    (claims, reasons)
}

/// DP-02 to DP-12 as far as annotations go.
#[test]
fn annotations_are_read() {
    let nothing: [&str; 0] = [];
    let both = [
        ("a.enabled", "true"),
        ("a.pvc", TEMPLATE),
        ("b.enabled", "true"),
        ("b.pvc", TEMPLATE),
    ];
    assert_eq!(
        told(&both),
        (vec!["b-claim".into(), "a-claim".into()], vec![]),
        "in the order of the volumes"
    );
    for value in ["1", "t", "T", "TRUE", "true", "True"] {
        assert_eq!(
            told(&[("a.enabled", value), ("a.pvc", TEMPLATE)]).0,
            ["a-claim"],
            "{value}"
        );
    }
    for value in ["0", "f", "F", "FALSE", "false", "False"] {
        assert_eq!(
            told(&[("a.enabled", value), ("a.pvc", TEMPLATE)]),
            (vec![], vec![]),
            "{value}"
        );
    }
    for (annotations, claims, reasons) in [
        (
            &[("a.enabled", "yes"), ("a.pvc", TEMPLATE)][..],
            &nothing[..],
            &[reasons::INVALID_ANNOTATION][..],
        ),
        (
            &[("a.enabled", " true"), ("a.pvc", TEMPLATE)],
            &[],
            &[reasons::INVALID_ANNOTATION],
        ),
        (&[("a.pvc", TEMPLATE)], &[], &[]),
        (
            &[("a.enable", "true"), ("a.pvc", TEMPLATE)],
            &[],
            &[reasons::INVALID_ANNOTATION],
        ),
        (&[("enabled", "true")], &[], &[reasons::INVALID_ANNOTATION]),
        (&[(".pvc", TEMPLATE)], &[], &[reasons::INVALID_ANNOTATION]),
        (
            &[
                ("a.enabled", "true"),
                ("b.enabled", "true"),
                ("b.pvc", TEMPLATE),
            ],
            &["b-claim"],
            &[reasons::MISSING_TEMPLATE],
        ),
        (
            &[("c.enabled", "true"), ("c.pvc", TEMPLATE)],
            &[],
            &[reasons::MISSING_VOLUME],
        ),
        (&[("c.enabled", "false"), ("c.pvc", TEMPLATE)], &[], &[]),
        (
            &[("scratch.enabled", "true"), ("scratch.pvc", TEMPLATE)],
            &[],
            &[reasons::INVALID],
        ),
        (
            &[("own.enabled", "true"), ("own.pvc", TEMPLATE)],
            &[],
            &[reasons::INVALID],
        ),
        (
            &[
                ("a.enabled", "true"),
                ("a.pvc", "spec: ["),
                ("b.enabled", "true"),
                ("b.pvc", TEMPLATE),
            ],
            &["b-claim"],
            &[reasons::INVALID],
        ),
    ] {
        let (found, said) = told(annotations);
        assert_eq!(
            (&found[..], &said[..]),
            (
                &claims
                    .iter()
                    .map(|&claim| claim.to_owned())
                    .collect::<Vec<_>>()[..],
                reasons
            ),
            "{annotations:?}"
        );
    }
}

#[test]
fn a_claim_is_asked_for_by_its_volume() {
    let wishes = wishes(&[
        ("a.enabled", "true"),
        ("a.pvc", "spec: ["),
        ("b.enabled", "false"),
        ("b.pvc", TEMPLATE),
    ]);
    assert_eq!(volume_for(&wishes, "a-claim"), Some("a"));
    assert!(wish_for(&wishes, "a-claim").is_err());
    assert_eq!(volume_for(&wishes, "b-claim"), None);
    assert!(matches!(wish_for(&wishes, "b-claim"), Ok(None)));
    assert_eq!(volume_for(&wishes, "a"), None);
}
