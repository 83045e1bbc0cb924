//! Tests of the metrics of claims that are held while being deleted.

use super::metrics::register;
use crate::{
    causes::FinishedPods,
    clock::Clock,
    cluster::Feed,
    objects::{claim::ClaimWire, pod::PodWire},
    telemetry::Metrics,
};
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

fn claim(name: &str, age: i64, finalizers: &[&str]) -> ClaimWire {
    let deleted = Timestamp::now() - SignedDuration::from_secs(age);
    let claim = json!({"metadata": {"name": name, "namespace": "ns", "uid": name,
        "deletionTimestamp": deleted.to_string(), "finalizers": finalizers}});
    serde_json::from_value(claim).expect("a claim")
}

fn pod(claim: &str, phase: &str) -> PodWire {
    let pod: Value = json!({"metadata": {"name": format!("{claim}-{phase}"), "namespace": "ns", "uid": phase},
        "spec": {"nodeName": "n", "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": claim}}]},
        "status": {"phase": phase}});
    serde_json::from_value(pod).expect("a pod")
}

fn text(mode: FinishedPods) -> String {
    const PROTECTION: &str = "kubernetes.io/pvc-protection";
    let living =
        json!({"metadata": {"name": "living", "namespace": "ns", "finalizers": [PROTECTION]}});
    let claims = vec![
        serde_json::from_value(living).expect("a claim"),
        claim("used", 7200, &[PROTECTION]),
        claim("used-too", 60, &[PROTECTION, "other"]),
        claim("finished", 600, &[PROTECTION]),
        claim("unused", 0, &[PROTECTION]),
        claim("foreign", 90_000, &["other"]),
        claim("going", 90_000, &[]),
    ];
    let pods = vec![
        pod("used", "Succeeded"),
        pod("used", "Running"),
        pod("used-too", "Running"),
        pod("finished", "Failed"),
        pod("finished", "Succeeded"),
    ];
    let metrics = Metrics::new();
    register(&metrics, Feed::filled(claims), Feed::filled(pods), mode);
    metrics.text()
}

fn number(text: &str, reason: &str) -> i64 {
    value(text, &format!("claims_held{{reason=\"{reason}\"}}"))
}

fn value(text: &str, series: &str) -> i64 {
    let prefix = format!("volume_warden_{series} ");
    let mut lines = text.lines();
    let value = lines.find_map(|line| line.strip_prefix(&*prefix));
    value.expect("a series").parse().expect("a number")
}

#[test]
fn held_claims_are_counted_by_cause() {
    let text = text(FinishedPods::Hold);
    let reasons = ["InUse", "FinishedPod", "NotInUse", "ForeignFinalizer"];
    assert_eq!(reasons.map(|reason| number(&text, reason)), [2, 1, 1, 1]);
}

#[test]
fn the_oldest_has_the_time_of_its_deletion() {
    let text = text(FinishedPods::Hold);
    let oldest = |reason: &str| {
        value(
            &text,
            &format!("claims_held_oldest_timestamp_seconds{{reason=\"{reason}\"}}"),
        )
    };
    let now = Clock::system().timestamp().as_second();
    for (reason, age) in [
        ("InUse", 7200),
        ("FinishedPod", 600),
        ("ForeignFinalizer", 90_000),
    ] {
        let passed = now - oldest(reason);
        assert!((age..age + 300).contains(&passed), "{reason}: {passed}");
    }
    let held = |reason: &str| oldest(reason) != 0;
    assert!(held("NotInUse"), "the API server's clock may be ahead");
}

#[test]
fn a_finished_pod_that_is_ignored_holds_nothing() {
    let text = text(FinishedPods::Release);
    assert_eq!(
        (number(&text, "FinishedPod"), number(&text, "NotInUse")),
        (0, 2)
    );
}
