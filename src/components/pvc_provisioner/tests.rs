//! Tests of the rule of pvc-provisioner, case by case.

use super::{
    rule::{Decision, RuleOptions, Step, Unconfirmed, decide, decide_live},
    view::{User, View, Wait},
};
use crate::objects::{Claim, ControllerId, claim::ClaimWire, managed_by::PROVISIONER_LABEL};
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
    }, "status": {"phase": "Bound"}});
    json_patch::merge(&mut claim, &changes);
    let wire: ClaimWire = serde_json::from_value(claim).expect("a claim");
    wire.into()
}

/// A pod that uses the claim, and requests it if `requests`. It has started unless it `waits`.
pub(super) fn user(name: &str, requests: bool, waits: bool) -> User {
    User {
        deleting: false,
        ended: false,
        started: !waits,
        scheduled: false,
        created: 0,
        name: name.into(),
        uid: format!("{name}-uid").into(),
        requested_volume: requests.then(|| "v".into()),
        template: None,
    }
}

fn in_words<Act>(decision: Decision<'_, Act>, act: impl Fn(Act) -> String) -> String {
    match decision {
        Decision::Leave(reason) => format!("leave {reason}"),
        Decision::Refuse(reason) => format!("refuse {reason}"),
        Decision::Await(user) => format!("await {}", user.name),
        Decision::Later(left) => format!("later {}", left.as_secs()),
        Decision::Act(what) => act(what),
    }
}

fn step_in_words(step: Step<'_>) -> String {
    match step {
        Step::Create(user) => format!("create {}", user.name),
        Step::RefuseRequester => "refuse ErrRequesterUnknown".into(),
        Step::SetOwner(user) => format!("give {}", user.name),
        Step::RemoveMarker(reason) => format!("keep {reason}"),
        Step::DeleteOrphan => "collect".into(),
    }
}

/// The decision of the rule as text. `waited` is for how long the claim has been waiting for its
/// pod, in seconds.
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
    let wait = Wait {
        waited: Duration::from_secs(waited),
        ..Wait::default()
    };
    let view = View { claim, users, wait };
    judged(view, confirmed, admission_only)
}

fn judged(view: View<'_>, confirmed: bool, admission_only: bool) -> String {
    let rule_options = RuleOptions {
        controller_id: &ControllerId::default(),
        grace: GRACE,
        admission_only,
    };
    if confirmed {
        in_words(decide_live(view, rule_options), step_in_words)
    } else {
        in_words(decide(view, rule_options), |Unconfirmed| "confirm".into())
    }
}

/// DP-01, DP-19, DP-20: a claim is created only for a pod that waits, and only once the claim's
/// absence is confirmed.
#[test]
fn a_claim_is_created_for_a_pod_that_waits() {
    let waits = [user("a", true, true)];
    assert_eq!(decided(None, &waits, false, 0), "confirm");
    assert_eq!(decided(None, &waits, true, 0), "create a");
    for users in [
        vec![],
        vec![user("a", true, false)],
        vec![user("a", false, true)],
        vec![User {
            deleting: true,
            ..user("a", true, true)
        }],
    ] {
        assert_eq!(decided(None, &users, true, 0), "leave NotRequested");
    }
}

/// With `--authorize-requester`, only admission creates claims, because the user is known only
/// there.
#[test]
fn with_authorize_requester_the_reconciler_creates_no_claim() {
    let waits = [user("a", true, true)];
    assert_eq!(decided_by(None, &waits, false, 0, true), "confirm");
    assert_eq!(
        decided_by(None, &waits, true, 0, true),
        "refuse ErrRequesterUnknown"
    );
}

/// Test cases DP-17, DP-18 of the specification.
#[test]
fn an_existing_claim_is_used_and_a_terminating_one_awaited() {
    let waits = [user("a", true, true)];
    let unmarked = claim(json!({"metadata": {"annotations": null}}));
    assert_eq!(decided(Some(&unmarked), &waits, false, 0), "leave Exists");
    let going = claim(json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}));
    assert_eq!(
        decided(Some(&going), &waits, false, 0),
        "refuse ClaimTerminating"
    );
    assert_eq!(
        decided(Some(&going), &[], false, 999),
        "leave ClaimTerminating"
    );
    // The claim is kept for a pod with a node, which starts with it.
    let scheduled = [User {
        scheduled: true,
        ..user("a", true, true)
    }];
    assert_eq!(
        decided(Some(&going), &scheduled, false, 0),
        "leave ClaimTerminating"
    );
    assert_eq!(decided(None, &scheduled, true, 0), "create a");
}

/// Of the pods that have not ended, the first created one gets the claim, whether it runs or not.
#[test]
fn a_marked_claim_is_given_to_the_first_created_pod() {
    let marked = claim(json!({}));
    let created = |name, created, waits| User {
        created,
        ..user(name, true, waits)
    };
    let mut users = vec![
        created("third", 3, true),
        created("first", 1, true),
        created("second", 2, false),
        User {
            ended: true,
            ..created("ended", 0, false)
        },
        user("only-uses", false, true),
        User {
            deleting: true,
            ..user("going", true, true)
        },
    ];
    assert_eq!(decided(Some(&marked), &users, false, 0), "confirm");
    for next in ["first", "second", "third", "ended", "going"] {
        let given = decided(Some(&marked), &users, true, 0);
        assert_eq!(given, format!("give {next}"));
        users.retain(|user| *user.name != *next);
    }
}

/// The claim stays with the pod whose Event states that the claim was created for it.
#[test]
fn a_marked_claim_stays_with_the_pod_that_was_seen_first() {
    let marked = claim(json!({}));
    let mut users = [user("a", true, true), user("b", true, true)];
    let given = |users: &[User]| {
        let wait = Wait {
            seen: Some("b-uid".into()),
            ..Wait::default()
        };
        let view = View {
            claim: Some(&marked),
            users,
            wait,
        };
        judged(view, true, false)
    };
    assert_eq!(given(&users), "give b");
    users[1].deleting = true;
    assert_eq!(given(&users), "give a");
}

fn waited(unchanged: u64, seen: bool) -> Wait {
    Wait {
        waited: GRACE,
        unchanged: Duration::from_secs(unchanged),
        seen: seen.then(|| "pod-uid".into()),
    }
}

/// A pending claim is not written: the binder, the scheduler or a provisioner may be about to write
/// it, and its write would fail.
#[test]
fn a_pending_claim_is_written_only_after_a_quiet_period() {
    let requesting_user = [user("a", true, true)];
    let another = [user("b", false, true)];
    for (phase, unchanged, requesting, used) in [
        (json!(null), 0, "await a", "leave ClaimPending"),
        (json!("Pending"), 599, "await a", "leave ClaimPending"),
        (json!("Pending"), 600, "give a", "keep NamedByOtherPod"),
        (json!("Bound"), 0, "give a", "keep NamedByOtherPod"),
        (json!("Lost"), 0, "give a", "keep NamedByOtherPod"),
    ] {
        let claim = claim(json!({"status": {"phase": phase}}));
        for (users, expected) in [(&requesting_user, requesting), (&another, used)] {
            let view = View {
                claim: Some(&claim),
                users,
                wait: waited(unchanged, false),
            };
            let found = judged(view, true, false);
            assert_eq!(found, expected, "{phase} {unchanged}");
        }
    }
}

/// The grace period is for a pod that is not stored yet. No claim is deleted without a live LIST of
/// pods, and a claim that another pod uses is never deleted.
#[test]
fn a_claim_whose_pod_was_seen_is_collected_once_the_pod_is_deleted() {
    let another = [user("b", false, true)];
    for phase in ["Pending", "Bound"] {
        let claim = claim(json!({"status": {"phase": phase}}));
        let decided = |users, confirmed, seen| {
            let wait = Wait {
                waited: Duration::ZERO,
                ..waited(0, seen)
            };
            let view = View {
                claim: Some(&claim),
                users,
                wait,
            };
            judged(view, confirmed, false)
        };
        assert_eq!(decided(&[], true, false), "later 60", "{phase}");
        assert_eq!(decided(&[], false, true), "confirm", "{phase}");
        assert_eq!(decided(&[], true, true), "collect", "{phase}");
        let used = match phase {
            "Bound" => "keep NamedByOtherPod",
            _ => "leave ClaimPending",
        };
        assert_eq!(decided(&another, true, true), used, "{phase}");
    }
}

#[test]
fn a_marked_claim_without_a_pod_is_collected_and_with_another_user_kept() {
    let marked = claim(json!({}));
    let another = [user("a", false, true)];
    for (waited, confirmed, alone, used) in [
        (0, false, "later 60", "later 60"),
        (59, true, "later 1", "later 1"),
        (60, false, "confirm", "confirm"),
        (60, true, "collect", "keep NamedByOtherPod"),
        (999, true, "collect", "keep NamedByOtherPod"),
    ] {
        let what = format!("{waited} {confirmed}");
        let claim = Some(&marked);
        assert_eq!(decided(claim, &[], confirmed, waited), alone, "{what}");
        assert_eq!(decided(claim, &another, confirmed, waited), used, "{what}");
    }
}

/// Only a marker that Volume Warden wrote on this claim makes it an orphan.
#[test]
fn other_claims_are_never_collected() {
    for (changes, what) in [
        (
            json!({"annotations": null}),
            "labelled by hand, or its owner was removed to keep the data",
        ),
        (json!({"labels": null}), "no label of Volume Warden"),
        (
            json!({"labels": {PROVISIONER_LABEL: "another"}}),
            "another's",
        ),
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

/// Another client has given the claim an owner, so Volume Warden does not manage it any more. With
/// the marker, the claim would be deleted once a user removes the owner to keep the data.
#[test]
fn a_marked_claim_with_an_owner_is_kept_and_loses_its_marker() {
    let owner = json!([{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "s", "uid": "u"}]);
    let users = [user("a", true, true)];
    for (phase, unchanged, live) in [
        ("Pending", 599, "leave ClaimPending"),
        ("Pending", 600, "keep Owned"),
        ("Bound", 0, "keep Owned"),
        ("Lost", 0, "keep Owned"),
    ] {
        let owned = claim(json!({
            "metadata": {"ownerReferences": owner}, "status": {"phase": phase},
        }));
        for users in [&users[..], &[]] {
            let view = View {
                claim: Some(&owned),
                users,
                wait: waited(unchanged, true),
            };
            assert_eq!(judged(view, true, false), live, "{phase} {unchanged}");
        }
    }
}

/// The watch of pods may be behind the watch of claims: a cached pod may be deleted already, and
/// the claim was then created for another pod, which is not stored yet.
#[test]
fn a_pod_is_seen_only_once_a_live_read_has_shown_it() {
    let pending = claim(json!({"status": {"phase": "Pending"}}));
    let users = [user("pod", true, true)];
    for (seen, cached) in [(false, "confirm"), (true, "await pod")] {
        let view = View {
            claim: Some(&pending),
            users: &users,
            wait: waited(0, seen),
        };
        assert_eq!(judged(view.clone(), false, false), cached, "{seen}");
        assert_eq!(judged(view, true, false), "await pod", "{seen}");
    }
}

/// A pod whose deletion has begun, or that has ended, gives way to another pod that needs the
/// claim.
#[test]
fn a_candidate_that_is_read_live_is_still_the_candidate() {
    let marked = claim(json!({}));
    let users = [user("a", true, true), user("b", true, true)];
    let view = View {
        claim: Some(&marked),
        users: &users,
        wait: waited(0, false),
    };
    let first = || users[0].clone();
    for (live, still) in [
        (first(), true),
        (
            User {
                started: true,
                ..first()
            },
            true,
        ),
        (
            User {
                deleting: true,
                ..first()
            },
            false,
        ),
        (
            User {
                ended: true,
                ..first()
            },
            false,
        ),
        (
            User {
                uid: "another".into(),
                ..first()
            },
            false,
        ),
        (
            User {
                requested_volume: None,
                ..first()
            },
            false,
        ),
    ] {
        assert_eq!(view.is_still_candidate(&live), still, "{live:?}");
    }
}
