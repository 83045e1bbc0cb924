//! Tests of StatefulSets whose pods or claims the API server refuses.

use super::{
    stuck::{found, lines, set, which},
    *,
};

const LIMIT: &str = "create Claim data-web-0 for Pod web-0 in StatefulSet web failed error: persistentvolumeclaims \
                     \"data-web-0\" is forbidden: maximum storage usage per PersistentVolumeClaim is 5Gi, but request is 8Gi";

/// The StatefulSet `web` without pods, and the last failure that its controller has reported.
fn refused(message: &str) -> Cluster {
    let about = json!({
        "apiVersion": "apps/v1", "kind": "StatefulSet", "namespace": "shop", "name": "web", "uid": "web",
    });
    let event = json!({
        "metadata": {"name": "event", "namespace": "shop"}, "involvedObject": about,
        "reason": "FailedCreate", "message": message,
        "firstTimestamp": "2026-01-01T00:10:00Z", "lastTimestamp": "2026-01-01T00:50:00Z",
    });
    Cluster::default()
        .with("/api/v1/namespaces", json!({"metadata": {"name": "shop"}}))
        .with("/apis/apps/v1/namespaces/shop/statefulsets", set())
        .with("/api/v1/namespaces/shop/events", event)
}

fn web() -> Object {
    Object::stateful_set("shop", "web")
}

#[tokio::test]
async fn a_claim_that_the_api_server_refuses_is_missing() {
    let answer = refused(LIMIT).explained(&web()).await;
    assert_eq!(codes(&answer), [Code::ClaimMissing]);
    assert_eq!(command(&answer), "kubectl describe statefulset web -n shop");
    let root = answer.root().expect("a root");
    assert_eq!(root.evidence.field, "Event FailedCreate");
    let expected = format!(
        "The claim data-web-0 does not exist, so the StatefulSet controller does not create the pod web-0. It last reported: {LIMIT}."
    );
    assert_eq!(root.sentence, expected);
    // The message of a webhook does not name the object that it refuses.
    let webhook = "create Claim data-web-0 for Pod web-0 in StatefulSet web failed error: admission webhook \
                   \"policy.example.com\" denied the request: no";
    let answer = refused(webhook).explained(&web()).await;
    assert_eq!(codes(&answer), [Code::ClaimMissing]);
}

/// The controller reports a failure again with each attempt, at least every 1,000 s.
#[tokio::test]
async fn a_refusal_from_before_a_success_is_over() {
    for (created, last, code) in [
        (None, "2026-01-01T00:10:00Z", Code::ClaimMissing),
        (
            Some("2026-01-01T00:35:00Z"),
            "2026-01-01T00:30:00Z",
            Code::PodPending,
        ),
        (
            Some("2026-01-01T00:29:00Z"),
            "2026-01-01T00:30:00Z",
            Code::ClaimMissing,
        ),
        // It may have created another pod between two attempts for this one.
        (
            Some("2026-01-01T00:55:00Z"),
            "2026-01-01T00:50:00Z",
            Code::ClaimMissing,
        ),
    ] {
        let mut cluster = refused(LIMIT);
        let (_, failed) = cluster.objects.last_mut().expect("the Event");
        failed["lastTimestamp"] = last.into();
        let mut success = failed.clone();
        success["reason"] = "SuccessfulCreate".into();
        success["lastTimestamp"] = created.into();
        if created.is_some() {
            cluster = cluster.with("/api/v1/namespaces/shop/events", success);
        }
        let answer = cluster.explained(&web()).await;
        assert_eq!(codes(&answer), [code], "{created:?} {last}");
    }
}

/// The Event can be about an earlier refusal, and the quota may have room by now.
#[tokio::test]
async fn the_message_of_an_event_names_no_quota() {
    let earlier = "create Claim data-web-1 for Pod web-1 in StatefulSet web failed error: persistentvolumeclaims \
                   \"data-web-1\" is forbidden: exceeded quota: small, requested: persistentvolumeclaims=1";
    let quota = |used: &str| {
        let (used, hard) = (
            json!({"persistentvolumeclaims": used}),
            json!({"persistentvolumeclaims": "2"}),
        );
        let quota = json!({"metadata": {"name": "small"}, "status": {"hard": hard, "used": used}});
        let mut cluster = refused(earlier);
        for (collection, object) in &mut cluster.objects {
            if collection.ends_with("/statefulsets") {
                object["spec"]["volumeClaimTemplates"][0]["spec"] = json!({});
            }
        }
        cluster.with("/api/v1/namespaces/shop/resourcequotas", quota)
    };
    let answer = quota("1").explained(&web()).await;
    assert_eq!(codes(&answer), [Code::ClaimMissing]);
    let answer = quota("2").explained(&web()).await;
    assert_eq!(codes(&answer), [Code::QuotaExhausted]);
}

/// A claim that exists was not refused, and it is not known whether a claim that could not be read
/// exists.
#[tokio::test]
async fn a_claim_is_missing_only_if_the_api_server_says_so() {
    let claim = json!({
        "metadata": {"name": "data-web-0", "namespace": "shop", "uid": "claim"}, "status": {"phase": "Bound"},
    });
    let pod = "create Pod web-0 in StatefulSet web failed error: pods \"web-0\" is forbidden: exceeded quota: small";
    let answer = refused(pod).claim(claim).explained(&web()).await;
    assert_eq!(codes(&answer), [Code::NoVolumeProblem]);
    let unread = refused(LIMIT).without("persistentvolumeclaims");
    assert_eq!(codes(&unread.explained(&web()).await), []);
}

#[tokio::test]
async fn a_quoted_message_is_bounded_and_escaped() {
    let message = format!("failed: \u{1b}[2J{}", "x".repeat(5000));
    let answer = refused(&message).explained(&web()).await;
    let sentence = &answer.root().expect("a root").sentence;
    assert!(sentence.contains("failed: \\u{1b}[2Jxxx"), "{sentence}");
    assert!(sentence.ends_with("x…") && sentence.chars().count() < 1200);
}

#[tokio::test]
async fn a_set_whose_claim_is_refused_is_stuck() {
    let stuck = found(refused(LIMIT), &which(Some("shop"))).await;
    assert_eq!(lines(&stuck), ["shop statefulset/web: ClaimMissing"]);
}
