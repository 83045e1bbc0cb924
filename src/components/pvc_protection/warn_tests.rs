//! Tests of the admission warnings on the deletion of a claim.

use super::deletions_hook;
use crate::causes::FinishedPods;
use crate::{
    admission::{Answer, Request, Reviewed},
    cluster::Feed,
    objects::{Pod, finalizers::PVC_PROTECTION, pod::PodWire},
    telemetry::Metrics,
};
use serde_json::{Value, json};
use std::sync::Arc;

fn pod(name: &str, claim: &str, phase: &str) -> PodWire {
    let volume = json!({"name": "v", "persistentVolumeClaim": {"claimName": claim}});
    let pod = json!({"metadata": {"name": name, "namespace": "ns", "uid": name},
        "spec": {"nodeName": "n", "volumes": [volume]}, "status": {"phase": phase}});
    serde_json::from_value(pod).expect("a pod")
}

fn pods() -> Arc<Feed<Pod>> {
    Feed::filled(vec![
        pod("web", "used", "Running"),
        pod("job", "finished", "Succeeded"),
        pod("a", "popular", "Succeeded"),
        pod("b", "popular", "Running"),
    ])
}

fn review(name: &str, old_object: &Value) -> Request {
    let review = json!({
        "uid": "review", "operation": "DELETE", "namespace": "ns", "name": name,
        "resource": {"group": "", "version": "v1", "resource": "persistentvolumeclaims"},
        "object": null, "oldObject": old_object, "dryRun": false,
    });
    serde_json::from_value(review).expect("a request")
}

fn reviewed(pods: &Arc<Feed<Pod>>, mode: FinishedPods, request: &Request) -> Reviewed {
    let hook = deletions_hook(pods, mode);
    assert!(hook.rules.iter().any(|rule| rule.covers(request)));
    hook.review.remembered(request)
}

fn deleted(pods: &Arc<Feed<Pod>>, mode: FinishedPods, name: &str, finalizers: &[&str]) -> Answer {
    let claim = json!({"metadata": {"name": name, "namespace": "ns", "finalizers": finalizers}});
    reviewed(pods, mode, &review(name, &claim)).expect("an answer")
}

/// The sentence of the only warning, without the beginning that all warnings share.
fn sentence(mode: FinishedPods, name: &str, finalizers: &[&str]) -> String {
    let Answer::Warn(sentences) = deleted(&pods(), mode, name, finalizers) else {
        panic!("no warning for {name}");
    };
    let [sentence] = &sentences[..] else {
        panic!("{sentences:?}");
    };
    let start = format!("persistentvolumeclaim \"{name}\" stays Terminating for now. ");
    sentence.strip_prefix(&start).expect(sentence).to_owned()
}

#[test]
fn the_warning_names_the_holder_of_the_claim() {
    let warned = |name, finalizers: &[&str]| sentence(FinishedPods::Hold, name, finalizers);
    assert_eq!(
        warned("used", &[PVC_PROTECTION, "other"]),
        "The claim is kept because pod ns/web uses it."
    );
    let finished = warned("finished", &[PVC_PROTECTION]);
    assert!(finished.contains("pod ns/job uses it. The workload has finished"));
    let popular = warned("popular", &[PVC_PROTECTION]);
    assert_eq!(popular, "The claim is kept because pod ns/b, a use it.");
}

/// Volume Warden removes its own finalizer immediately, so the warning names the finalizer of
/// another controller.
#[test]
fn the_warning_names_the_finalizer_of_others() {
    for finalizers in [&["other"][..], &[PVC_PROTECTION, "other"]] {
        let warned = sentence(FinishedPods::Hold, "unused", finalizers);
        assert!(
            warned.starts_with("The finalizer other keeps the object"),
            "{warned}"
        );
    }
}

#[test]
fn a_claim_without_holders_gets_no_warning() {
    let held = FinishedPods::Hold;
    for (name, mode, finalizers) in [
        ("unused", held, &[PVC_PROTECTION][..]),
        ("unused", held, &[]),
        ("used", held, &[]),
        ("finished", FinishedPods::Release, &[PVC_PROTECTION]),
    ] {
        let answer = deleted(&pods(), mode, name, finalizers);
        assert_eq!(answer, Answer::Allow, "{name} {finalizers:?}");
    }
}

/// A warning is optional: the webhook neither waits nor fails before the pods are listed.
#[test]
fn before_the_pods_are_listed_there_is_no_warning() {
    let unlisted = Feed::<Pod>::new(Arc::new(Metrics::new()));
    unlisted.deliver(pod("web", "used", "Running"), true);
    let answer = deleted(&unlisted, FinishedPods::Hold, "used", &[PVC_PROTECTION]);
    assert_eq!(answer, Answer::Allow);
}

#[test]
fn an_unreadable_request_is_not_refused() {
    for object in [json!(null), json!("text"), json!({"metadata": 3})] {
        let answer = reviewed(&pods(), FinishedPods::Hold, &review("used", &object));
        assert!(answer.is_err(), "{answer:?}");
    }
}
