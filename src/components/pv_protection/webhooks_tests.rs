//! Tests of the answers of the webhooks of pv-protection to reviews as the API server sends them.

use super::hooks;
use crate::{
    admission::{Answer, Request, Reviewed},
    cluster::{
        Excluded, Feed, Feeds, LiveGet,
        test_server::{answering, failure},
    },
    objects::{Claim, finalizers::PV_PROTECTION},
    telemetry::Metrics,
};
use kube::Client;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::sync::Arc;

const DELETED: &str = "2026-01-01T00:00:00Z";

fn read<T: DeserializeOwned>(wire: Value) -> T {
    serde_json::from_value(wire).expect("readable")
}

/// A claim that names the volume. With `completed`, it has the annotation with which the binder
/// marks a completed binding.
fn claim(name: &str, volume: &str, completed: bool) -> Value {
    let annotations = if completed {
        json!({"pv.kubernetes.io/bind-completed": "yes"})
    } else {
        json!({})
    };
    let uid = format!("{name}-uid");
    json!({
        "metadata": {"namespace": "ns", "name": name, "uid": uid, "annotations": annotations},
        "spec": {"volumeName": volume},
    })
}

fn existing() -> Vec<Value> {
    vec![
        claim("fresh", "", false),
        claim("prepared", "volume", false),
        claim("bound", "volume", true),
        claim("bound-elsewhere", "other-volume", true),
    ]
}

fn claims() -> Arc<Feed<Claim>> {
    Feed::filled(existing().into_iter().map(read).collect())
}

/// An API server that has these claims, or that returns only errors.
fn api(claims: Option<Vec<Value>>) -> Client {
    answering(move |head, _| {
        let Some(claims) = &claims else {
            return failure(500, "InternalError");
        };
        let name = head.uri.path().rsplit('/').next().unwrap_or_default();
        let found = claims
            .iter()
            .find(|claim| claim["metadata"]["name"] == name);
        found.map_or(failure(404, "NotFound"), |claim| (200, claim.clone()))
    })
}

/// A `spec.claimRef` with the uid of the claim.
fn to(claim: &str) -> Value {
    json!({"namespace": "ns", "name": claim, "uid": format!("{claim}-uid")})
}

fn reserved_for(claim: &str) -> Value {
    json!({"namespace": "ns", "name": claim})
}

/// The volume that the webhook reviews.
fn volume(deleting: bool, claim_ref: &Value, phase: &str) -> Value {
    let deletion = deleting.then_some(DELETED);
    json!({
        "metadata": {"name": "volume", "uid": "volume-uid", "deletionTimestamp": deletion, "finalizers": [PV_PROTECTION]},
        "spec": {"claimRef": claim_ref, "capacity": {"storage": "1Gi"}},
        "status": {"phase": phase},
    })
}

fn review(operation: &str, sub_resource: &str, object: Value, old_object: Value) -> Request {
    read(json!({
        "uid": "review", "operation": operation, "name": "volume", "subResource": sub_resource,
        "resource": {"group": "", "version": "v1", "resource": "persistentvolumes"},
        "object": object, "oldObject": old_object, "dryRun": false,
    }))
}

/// The answer of the webhook that the webhook configuration calls, with a current watch.
fn answer_to(claims: &Arc<Feed<Claim>>, request: &Request) -> Answer {
    answer_within(claims, None, request)
}

/// The answer of the webhook when only one namespace is watched.
fn answer_within(claims: &Arc<Feed<Claim>>, namespace: Option<&str>, request: &Request) -> Answer {
    answer_before(claims, Some(existing()), namespace, request)
}

/// The result of the review: the answer, or the error if there is none.
fn reviewed(claims: &Arc<Feed<Claim>>, request: &Request) -> Reviewed {
    reviewed_before(claims, Some(existing()), None, request)
}

/// The result of the review with an API server that has these claims.
fn answer_before(
    claims: &Arc<Feed<Claim>>,
    live: Option<Vec<Value>>,
    namespace: Option<&str>,
    request: &Request,
) -> Answer {
    reviewed_before(claims, live, namespace, request).expect("an answer")
}

#[tokio::main(flavor = "current_thread")]
async fn reviewed_before(
    claims: &Arc<Feed<Claim>>,
    live: Option<Vec<Value>>,
    namespace: Option<&str>,
    request: &Request,
) -> Reviewed {
    let live = LiveGet::new(Arc::new(Metrics::new()), &api(live));
    let feeds = Feeds::new(&Arc::new(Metrics::new()));
    let labels = json!({"volume-warden.dev/exclude": "true"});
    let out = json!({"metadata": {"name": "out", "uid": "1", "labels": labels}});
    feeds.namespaces.list(vec![read(out)]);
    let excluded = Excluded::by_label(&feeds, None);
    let hooks = hooks(claims, &live, namespace, &excluded);
    let mut responsible = hooks
        .iter()
        .filter(|hook| hook.rules.iter().any(|rule| rule.covers(request)));
    let review = &responsible.next().expect("a hook").review;
    let answer = review.answer(Arc::new(request.clone())).await;
    // The webhook at the path `bind` reviews updates of the status, too, as in version 0.1.0.
    for other in responsible {
        let same = other.review.answer(Arc::new(request.clone())).await;
        assert_eq!(same, answer, "{}", other.path);
    }
    answer
}

/// The answer to an update that changes `claimRef` from the first value to the second.
fn rebound(deleting: bool, before: &Value, after: &Value) -> Answer {
    let request = review(
        "UPDATE",
        "",
        volume(deleting, after, "Available"),
        volume(deleting, before, "Available"),
    );
    answer_to(&claims(), &request)
}

/// The answer to an update that changes the phase from the first value to the second.
fn moved(deleting: bool, claim_ref: &Value, before: &str, after: &str) -> Answer {
    let request = review(
        "UPDATE",
        "status",
        volume(deleting, claim_ref, after),
        volume(deleting, claim_ref, before),
    );
    answer_to(&claims(), &request)
}

#[track_caller]
fn refused(answer: &Answer, claim: &str) {
    let Answer::Deny { code: 403, message } = answer else {
        panic!("{claim}: {answer:?}");
    };
    let start = format!(
        "persistentvolume \"volume\" is being deleted, so no claim may be bound to it, and its \
         binding to the claim ns/{claim} is refused."
    );
    assert!(message.starts_with(&start), "{message}");
}

#[test]
fn a_deleting_volume_is_not_bound_again() {
    let free = json!(null);
    for claim in ["fresh", "prepared", "bound-elsewhere", "unknown"] {
        refused(&rebound(true, &free, &to(claim)), claim);
        refused(&rebound(true, &reserved_for(claim), &to(claim)), claim);
        refused(&rebound(true, &to("bound"), &to(claim)), claim);
        refused(&moved(true, &to(claim), "Available", "Bound"), claim);
    }
}

/// The namespace `out` has opted out.
#[test]
fn no_binding_in_an_excluded_namespace_is_refused() {
    let mut elsewhere = to("fresh");
    elsewhere["namespace"] = json!("out");
    assert_eq!(rebound(true, &json!(null), &elsewhere), Answer::Allow);
}

#[test]
fn a_new_claim_of_an_old_ones_name_is_not_the_bound_one() {
    let mut successor = to("bound");
    successor["uid"] = json!("another");
    refused(&rebound(true, &json!(null), &successor), "bound");
    refused(&moved(true, &successor, "Released", "Bound"), "bound");
}

#[test]
fn a_binding_that_was_complete_may_be_repaired() {
    for before in [json!(null), reserved_for("bound"), to("unknown")] {
        let answer = rebound(true, &before, &to("bound"));
        assert_eq!(answer, Answer::Allow, "{before}");
    }
    let answer = moved(true, &to("bound"), "Available", "Bound");
    assert_eq!(answer, Answer::Allow);
}

/// A late watch or a failed read must not prevent the repair of a binding.
#[test]
fn only_what_a_live_read_confirms_is_refused() {
    let before = volume(true, &json!(null), "Available");
    let after = volume(true, &to("fresh"), "Available");
    let request = review("UPDATE", "", after, before);
    let answer = |live| answer_before(&claims(), live, None, &request);
    refused(&answer(Some(existing())), "fresh");
    refused(&answer(Some(Vec::new())), "fresh");
    assert_eq!(answer(None), Answer::Allow, "the read fails");
    let bound = vec![claim("fresh", "volume", true)];
    assert_eq!(answer(Some(bound)), Answer::Allow, "the binder was first");
}

#[test]
fn other_updates_are_allowed() {
    let (free, fresh) = (json!(null), to("fresh"));
    for (row, answer) in [
        ("not deleting", rebound(false, &free, &fresh)),
        ("same uid", rebound(true, &fresh, &fresh)),
        ("reserved", rebound(true, &free, &reserved_for("fresh"))),
        ("emptied", rebound(true, &fresh, &free)),
        ("let go", rebound(true, &fresh, &reserved_for("fresh"))),
        ("not deleting", moved(false, &fresh, "Available", "Bound")),
        ("Bound before", moved(true, &fresh, "Bound", "Bound")),
        ("Released", moved(true, &fresh, "Bound", "Released")),
        ("Failed", moved(true, &fresh, "Released", "Failed")),
    ] {
        assert_eq!(answer, Answer::Allow, "{row}");
    }
}

#[test]
fn labels_of_a_deleting_volume_may_be_edited() {
    let before = volume(true, &to("fresh"), "Available");
    let mut after = before.clone();
    after["metadata"]["labels"] = json!({"a": "b"});
    let answer = answer_to(&claims(), &review("UPDATE", "", after, before));
    assert_eq!(answer, Answer::Allow);
}

#[test]
fn before_the_claims_are_listed_only_bindings_fail() {
    let unlisted = Feed::<Claim>::new(Arc::new(Metrics::new()));
    let update = |deleting| {
        let free = volume(deleting, &json!(null), "Available");
        let bound = volume(deleting, &to("bound"), "Available");
        reviewed(&unlisted, &review("UPDATE", "", bound, free))
    };
    assert!(update(true).is_err());
    assert_eq!(update(false), Ok(Answer::Allow));
}

#[test]
fn an_unreadable_request_is_not_refused() {
    let good = || volume(true, &to("fresh"), "Available");
    for bad in [json!(null), json!("text"), json!({"metadata": 3})] {
        for request in [
            review("CREATE", "", bad.clone(), json!(null)),
            review("UPDATE", "", bad.clone(), good()),
            review("UPDATE", "", good(), bad.clone()),
            review("UPDATE", "status", good(), bad),
        ] {
            let answer = reviewed(&claims(), &request);
            assert!(answer.is_err(), "{answer:?}");
        }
    }
}

/// A claim in a namespace that is not watched may be bound, so no binding to that claim is refused.
#[test]
fn claims_of_other_namespaces_are_not_judged() {
    let (before, after) = (
        volume(true, &json!(null), "Available"),
        volume(true, &to("fresh"), "Available"),
    );
    let request = review("UPDATE", "", after, before);
    assert_eq!(
        answer_within(&claims(), Some("another"), &request),
        Answer::Allow
    );
    refused(&answer_within(&claims(), Some("ns"), &request), "fresh");
}

/// The volume's finalizers after admission.
fn protected(finalizers: &Value, deletion: &Value) -> Value {
    let mut volume = volume(false, &json!(null), "Pending");
    volume["metadata"]["finalizers"] = finalizers.clone();
    volume["metadata"]["deletionTimestamp"] = deletion.clone();
    let request = review("CREATE", "", volume.clone(), json!(null));
    match answer_to(&claims(), &request) {
        Answer::Allow => {}
        Answer::Patch { operations, .. } => {
            json_patch::patch(&mut volume, &operations).expect("applies");
        }
        other => panic!("{other:?}"),
    }
    volume["metadata"]["finalizers"].take()
}

#[test]
fn a_new_volume_gets_the_finalizer() {
    for (before, deletion, after) in [
        (json!(null), json!(null), json!([PV_PROTECTION])),
        (json!([]), json!(null), json!([PV_PROTECTION])),
        (json!(["a"]), json!(null), json!(["a", PV_PROTECTION])),
        (
            json!([PV_PROTECTION, "a"]),
            json!(null),
            json!([PV_PROTECTION, "a"]),
        ),
        (json!(["a"]), json!(DELETED), json!(["a"])),
    ] {
        assert_eq!(protected(&before, &deletion), after, "{before} {deletion}");
    }
}
