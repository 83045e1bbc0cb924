//! Tests of the answers of the webhooks of pvc-protection to reviews as the API server sends them.

use super::hooks;
use crate::{
    admission::{Answer, Request, Reviewed},
    cluster::{
        Feed, LiveGet,
        test_server::{answering, failure, silent},
    },
    objects::{Claim, Pod, finalizers::PVC_PROTECTION},
    telemetry::Metrics,
};
use kube::{Client, client::Body};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

const DELETED: &str = "2026-01-01T00:00:00Z";
const SYSTEM: &str = "warden-system";

fn read<T: DeserializeOwned>(wire: Value) -> T {
    serde_json::from_value(wire).expect("readable")
}

fn merged(mut object: Value, changes: Value) -> Value {
    json_patch::merge(&mut object, &changes);
    object
}

fn claim(namespace: &str, name: &str, changes: Value) -> Value {
    let metadata = json!({"namespace": namespace, "name": name, "uid": format!("{name}-uid")});
    merged(json!({"metadata": metadata}), changes)
}

fn deleted() -> Value {
    json!({"metadata": {"deletionTimestamp": DELETED, "finalizers": [PVC_PROTECTION]}})
}

/// A claim that is being deleted, and is controlled by the pod with this uid.
fn made_for(pod: &str) -> Value {
    let owner =
        json!({"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": pod, "controller": true});
    merged(deleted(), json!({"metadata": {"ownerReferences": [owner]}}))
}

/// All claims of the cluster.
fn existing() -> Vec<Value> {
    let mut claims = vec![
        claim("ns", "live", json!({})),
        claim("ns", "gone", deleted()),
        claim("ns", "pod-scratch", made_for("pod-uid")),
        claim("ns", "other-scratch", made_for("foreign-uid")),
        claim("elsewhere", "live", deleted()),
        claim("down", "pod-scratch", made_for("pod-uid")),
    ];
    claims.extend(["kube-system", SYSTEM].map(|namespace| claim(namespace, "gone", deleted())));
    claims
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
        let path_of = |claim: &Value| {
            let (namespace, name) = (&claim["metadata"]["namespace"], &claim["metadata"]["name"]);
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let (namespace, name) = (text(namespace), text(name));
            format!("/api/v1/namespaces/{namespace}/persistentvolumeclaims/{name}")
        };
        let mut claims = claims.iter();
        let found = claims.find(|claim| path_of(claim) == head.uri.path());
        found.map_or(failure(404, "NotFound"), |claim| (200, claim.clone()))
    })
}

fn explicit(claim: &str) -> Value {
    json!({"name": "data", "persistentVolumeClaim": {"claimName": claim}})
}

/// An ephemeral volume of a pod, whose claim is `<pod>-scratch`.
fn ephemeral() -> Value {
    json!({"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}})
}

fn pod(name: &str, volumes: &[Value], changes: Value) -> Value {
    let pod = json!({
        "metadata": {"namespace": "ns", "name": name, "uid": format!("{name}-uid")},
        "spec": {"volumes": volumes},
        "status": {"phase": "Pending"},
    });
    merged(pod, changes)
}

fn on_a_node() -> Value {
    json!({"spec": {"nodeName": "node"}})
}

fn review(resource: &str, sub_resource: &str, namespace: &str, object: Value) -> Request {
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    read(json!({
        "uid": "review", "operation": "CREATE", "namespace": namespace, "name": name,
        "resource": {"group": "", "version": "v1", "resource": resource}, "subResource": sub_resource,
        "object": object, "oldObject": null, "dryRun": false,
    }))
}

/// The answer of the webhook that the webhook configuration calls, with current watches.
fn answer_to(claims: &Arc<Feed<Claim>>, pods: &Arc<Feed<Pod>>, request: &Request) -> Answer {
    reviewed(claims, pods, request).expect("an answer")
}

/// The result of the review: the answer, or the error if there is none.
fn reviewed(claims: &Arc<Feed<Claim>>, pods: &Arc<Feed<Pod>>, request: &Request) -> Reviewed {
    reviewed_before(claims, Some(existing()), pods, request)
}

/// The result of the review with an API server that has these claims.
fn answer_before(
    claims: &Arc<Feed<Claim>>,
    live: Option<Vec<Value>>,
    pods: &Arc<Feed<Pod>>,
    request: &Request,
) -> Answer {
    reviewed_before(claims, live, pods, request).expect("an answer")
}

#[tokio::main(flavor = "current_thread")]
async fn reviewed_before(
    claims: &Arc<Feed<Claim>>,
    live: Option<Vec<Value>>,
    pods: &Arc<Feed<Pod>>,
    request: &Request,
) -> Reviewed {
    reviewed_by(&api(live), claims, pods, request).await
}

async fn reviewed_by(
    client: &Client,
    claims: &Arc<Feed<Claim>>,
    pods: &Arc<Feed<Pod>>,
    request: &Request,
) -> Reviewed {
    let exempt = ["kube-system".to_owned(), SYSTEM.to_owned()];
    let live = LiveGet::new(Arc::new(Metrics::new()), client);
    let hooks = hooks(claims, &live, pods, &exempt);
    let mut responsible = hooks
        .iter()
        .filter(|hook| hook.rules.iter().any(|rule| rule.covers(request)));
    let (hook, other) = (responsible.next(), responsible.next());
    assert!(other.is_none(), "one hook per request");
    let review = &hook.expect("a hook").review;
    review.answer(Arc::new(request.clone())).await
}

#[track_caller]
fn refused_for(claim: &str, answer: &Answer, row: &str) {
    let Answer::Deny { code: 403, message } = answer else {
        panic!("{row}: {answer:?}");
    };
    let start = format!("persistentvolumeclaim \"{claim}\" is being deleted");
    assert!(message.starts_with(&start), "{row}: {message}");
}

fn created(namespace: &str, pod: Value) -> Answer {
    let request = review("pods", "", namespace, pod);
    // No watch contains the pod, because it is just being created.
    answer_to(&claims(), &Feed::filled(Vec::new()), &request)
}

/// The duration of a review does not depend on the number of claims, because they are read
/// concurrently.
#[tokio::test(start_paused = true)]
async fn a_silent_api_server_costs_one_timeout() {
    let pod = pod("pod", &[explicit("gone"), ephemeral()], on_a_node());
    let request = review("pods", "", "ns", pod);
    let (claims, pods) = (claims(), Feed::filled(Vec::new()));
    let client = silent();
    let review = reviewed_by(&client, &claims, &pods, &request);
    let answer = tokio::time::timeout(request.call_budget * 3 / 2, review).await;
    assert!(matches!(answer, Ok(Ok(Answer::Allow))), "{answer:?}");
}

#[test]
fn a_pod_created_for_a_node_is_refused_a_deleting_claim() {
    let without_uid = merged(
        on_a_node(),
        json!({"metadata": {"uid": null, "name": null}}),
    );
    for (row, claim, volumes, changes) in [
        ("one claim", "gone", vec![explicit("gone")], on_a_node()),
        (
            "among others",
            "gone",
            vec![explicit("live"), ephemeral(), explicit("gone")],
            on_a_node(),
        ),
        (
            "another pod's ephemeral claim, but named",
            "other-scratch",
            vec![explicit("other-scratch")],
            on_a_node(),
        ),
        ("generateName", "gone", vec![explicit("gone")], without_uid),
    ] {
        refused_for(claim, &created("ns", pod("new", &volumes, changes)), row);
    }
}

#[test]
fn the_claim_is_the_one_of_the_pods_namespace() {
    let pod = || pod("new", &[explicit("live")], on_a_node());
    refused_for("live", &created("elsewhere", pod()), "elsewhere");
    assert_eq!(created("ns", pod()), Answer::Allow);
}

#[test]
fn other_new_pods_are_allowed() {
    let mirror = json!({"metadata": {"annotations": {"kubernetes.io/config.mirror": "hash"}}});
    let no_node = json!({"spec": {"nodeName": ""}});
    for (row, name, namespace, volume, changes) in [
        ("living claim", "new", "ns", explicit("live"), on_a_node()),
        ("unknown claim", "new", "ns", explicit("nil"), on_a_node()),
        ("no claim", "new", "ns", json!({"name": "v"}), on_a_node()),
        ("no node", "new", "ns", explicit("gone"), json!({})),
        ("empty node", "new", "ns", explicit("gone"), no_node),
        (
            "mirror pod",
            "new",
            "ns",
            explicit("gone"),
            merged(on_a_node(), mirror),
        ),
        (
            "kube-system",
            "new",
            "kube-system",
            explicit("gone"),
            on_a_node(),
        ),
        (
            "system namespace",
            "new",
            SYSTEM,
            explicit("gone"),
            on_a_node(),
        ),
        (
            "another's ephemeral claim",
            "other",
            "ns",
            ephemeral(),
            on_a_node(),
        ),
    ] {
        let answer = created(namespace, pod(name, &[volume], changes));
        assert_eq!(answer, Answer::Allow, "{row}");
    }
}

fn known_pods() -> Arc<Feed<Pod>> {
    let shut_down = json!({"metadata": {
        "uid": "pod-uid", "name": "pod", "deletionTimestamp": DELETED, "deletionGracePeriodSeconds": 0}});
    let pods = [
        pod("explicit", &[explicit("gone")], json!({})),
        pod("pod", &[ephemeral()], json!({})),
        pod("other", &[ephemeral()], json!({})),
        pod("healthy", &[explicit("live")], json!({})),
        pod(
            "finished",
            &[explicit("gone")],
            json!({"status": {"phase": "Failed"}}),
        ),
        // The second pod is in another namespace, so that two pods can have the same name and uid.
        merged(
            pod("pod", &[ephemeral()], shut_down),
            json!({"metadata": {"namespace": "down"}}),
        ),
        merged(
            pod("explicit", &[explicit("gone")], json!({})),
            json!({"metadata": {"namespace": SYSTEM}}),
        ),
    ];
    Feed::filled(pods.into_iter().map(read).collect())
}

/// The answer to a binding by `bindings` and by `pods/binding`, which must be the same.
fn bound(namespace: &str, pod: &str) -> Answer {
    let binding = || {
        // A time that cannot be parsed, which the API server accepts.
        let metadata = json!({"namespace": namespace, "name": pod, "uid": format!("{pod}-uid"),
            "creationTimestamp": "9999-12-31T23:59:59Z"});
        let target = json!({"kind": "Node", "name": "node"});
        json!({"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": target})
    };
    let answers = [("pods", "binding"), ("bindings", "")].map(|(resource, sub_resource)| {
        let request = review(resource, sub_resource, namespace, binding());
        answer_to(&claims(), &known_pods(), &request)
    });
    let [answer, legacy] = answers;
    assert_eq!(answer, legacy, "{namespace}/{pod}");
    answer
}

/// A tenant's pod must not cause thousands of live reads.
#[tokio::test]
async fn a_claim_that_a_pod_names_a_thousand_times_is_read_once() {
    let reads = Arc::new(AtomicUsize::new(0));
    let (count, inner) = (reads.clone(), api(Some(existing())));
    let service = tower::service_fn(move |request: http::Request<Body>| {
        count.fetch_add(1, Ordering::SeqCst);
        let inner = inner.clone();
        async move { inner.send(request).await }
    });
    let client = Client::new(service, "default");
    let volumes = vec![explicit("gone"); 1000];
    let request = review("pods", "", "ns", pod("new", &volumes, on_a_node()));
    let answer = reviewed_by(&client, &claims(), &known_pods(), &request).await;
    refused_for("gone", &answer.expect("an answer"), "a thousand volumes");
    assert_eq!(reads.load(Ordering::SeqCst), 1);
}

#[test]
fn a_pod_is_not_bound_while_its_claim_is_being_deleted() {
    refused_for("gone", &bound("ns", "explicit"), "names the claim");
    refused_for("pod-scratch", &bound("ns", "pod"), "owns the claim");
    // The rule holds the claim for a finished pod, too, once the pod has a node.
    refused_for("gone", &bound("ns", "finished"), "finished");
}

/// A late watch or a failed read keeps no pod from a claim.
#[test]
fn only_what_a_live_read_confirms_is_refused() {
    let on_node = review(
        "pods",
        "",
        "ns",
        pod("new", &[explicit("gone")], on_a_node()),
    );
    let metadata = json!({"metadata": {"name": "explicit"}});
    let binding = review("pods", "binding", "ns", metadata);
    let successor = vec![claim("ns", "gone", json!({"metadata": {"uid": "another"}}))];
    for request in [on_node, binding] {
        let answer = |live| answer_before(&claims(), live, &known_pods(), &request);
        refused_for("gone", &answer(Some(existing())), "it is so");
        for (row, live) in [
            ("it came back", Some(successor.clone())),
            ("it is gone", Some(Vec::new())),
            ("the read fails", None),
        ] {
            assert_eq!(answer(live), Answer::Allow, "{row}");
        }
    }
}

#[test]
fn other_bindings_are_allowed() {
    for (row, namespace, pod) in [
        ("living claim", "ns", "healthy"),
        ("another's ephemeral claim", "ns", "other"),
        ("unknown pod", "ns", "unknown"),
        ("pod of that name elsewhere", "elsewhere", "explicit"),
        ("shut down, so it waits for the claim", "down", "pod"),
        ("system namespace", SYSTEM, "explicit"),
    ] {
        assert_eq!(bound(namespace, pod), Answer::Allow, "{row}");
    }
}

/// The watch has an earlier pod of the name until it delivers the new one.
#[test]
fn a_binding_is_judged_by_its_own_pod() {
    let answer = |uid: Value| {
        let binding = json!({"metadata": {"name": "explicit", "uid": uid}});
        let request = review("pods", "binding", "ns", binding);
        answer_to(&claims(), &known_pods(), &request)
    };
    assert_eq!(answer(json!("recreated")), Answer::Allow);
    for uid in [json!("explicit-uid"), json!(""), json!(null)] {
        refused_for("gone", &answer(uid.clone()), &uid.to_string());
    }
}

#[test]
fn before_the_lists_are_complete_only_what_needs_none_is_answered() {
    let (claims, pods) = (claims(), known_pods());
    let unlisted_claims = Feed::<Claim>::new(Arc::new(Metrics::new()));
    let unlisted_pods = Feed::<Pod>::new(Arc::new(Metrics::new()));
    let new = |changes| pod("new", &[explicit("gone")], changes);
    let on_node = review("pods", "", "ns", new(on_a_node()));
    let unscheduled = review("pods", "", "ns", new(json!({})));
    let exempt = review("pods", "", SYSTEM, new(on_a_node()));
    let binding = review(
        "pods",
        "binding",
        "ns",
        json!({"metadata": {"name": "explicit"}}),
    );
    let unavailable = |claims, pods, request| reviewed(claims, pods, request).is_err();

    assert!(unavailable(&unlisted_claims, &pods, &on_node));
    assert!(!unavailable(&claims, &unlisted_pods, &on_node));
    assert!(!unavailable(&unlisted_claims, &unlisted_pods, &unscheduled));
    assert!(!unavailable(&unlisted_claims, &unlisted_pods, &exempt));
    assert!(unavailable(&unlisted_claims, &pods, &binding));
    assert!(unavailable(&claims, &unlisted_pods, &binding));
}

#[test]
fn an_unreadable_request_is_not_refused() {
    for (resource, sub_resource) in [
        ("pods", ""),
        ("pods", "binding"),
        ("bindings", ""),
        ("persistentvolumeclaims", ""),
    ] {
        for object in [json!(null), json!("text"), json!({"metadata": 3})] {
            let request = review(resource, sub_resource, "ns", object);
            let answer = reviewed(&claims(), &known_pods(), &request);
            assert!(answer.is_err(), "{answer:?}");
        }
    }
}

/// The claim's finalizers after admission.
fn protected(finalizers: &Value, deletion: &Value) -> Value {
    let metadata = json!({"deletionTimestamp": deletion, "finalizers": finalizers});
    let mut claim = claim("ns", "new", json!({"metadata": metadata}));
    let request = review("persistentvolumeclaims", "", "ns", claim.clone());
    match answer_to(&claims(), &known_pods(), &request) {
        Answer::Allow => {}
        Answer::Patch { operations, .. } => {
            json_patch::patch(&mut claim, &operations).expect("applies");
        }
        other => panic!("{other:?}"),
    }
    claim["metadata"]["finalizers"].take()
}

#[test]
fn a_new_claim_gets_the_finalizer() {
    for (before, deletion, after) in [
        (json!(null), json!(null), json!([PVC_PROTECTION])),
        (json!([]), json!(null), json!([PVC_PROTECTION])),
        (json!(["a"]), json!(null), json!(["a", PVC_PROTECTION])),
        (
            json!([PVC_PROTECTION, "a"]),
            json!(null),
            json!([PVC_PROTECTION, "a"]),
        ),
        (json!(["a"]), json!(DELETED), json!(["a"])),
    ] {
        assert_eq!(protected(&before, &deletion), after, "{before} {deletion}");
    }
}
