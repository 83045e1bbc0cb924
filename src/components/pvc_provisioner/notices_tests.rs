//! Tests of which notices become Events, and how often.

use super::*;
use crate::{
    cluster::{Elector, Feed, test_server::answering},
    components::pvc_provisioner::tests::user,
    objects::{claim::ClaimWire, managed_by::PROVISIONER_LABEL, pod::PodWire},
    telemetry::Metrics,
};
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::Instant;

/// The notes of the Events that were sent.
type Sent = Arc<Mutex<Vec<String>>>;

/// Notices whose Events an API server refuses if their note contains `refused`.
fn notices(refused: &'static str) -> (Notices, Sent) {
    let (sent, metrics) = (Sent::default(), Arc::new(Metrics::new()));
    let log = sent.clone();
    let client = answering(move |_, event| {
        let note = event["note"].as_str().unwrap_or_default().to_owned();
        let fails = !refused.is_empty() && note.contains(refused);
        log.lock().push(note);
        (if fails { 500 } else { 201 }, event)
    });
    let (lead, leadership) = Elector::for_test();
    lead.replace(Some(Instant::now() + Duration::from_secs(86_400)));
    let apply = Apply::new(client, leadership, 1, false, metrics);
    (Notices::new(Arc::new(apply)), sent)
}

/// Waits until `count` Events were sent, and for any more.
async fn count(sent: &Sent) -> usize {
    tokio::time::sleep(Duration::from_secs(60)).await;
    sent.lock().len()
}

/// The API server quotes how much of a quota is used, which changes with each other claim.
#[tokio::test(start_paused = true)]
async fn an_obstacle_is_published_once_also_if_its_numbers_change() {
    let (notices, sent) = notices("");
    let claim = ObjectName::new("ns", "c");
    for (text, expected) in [("used: 95Gi", 1), ("used: 120Gi", 1), ("no such class", 2)] {
        let notice = Notice::invalid_template("v", &text);
        notices.obstacle(&claim, [(&user("p", true, true), notice)]);
        assert_eq!(count(&sent).await, expected, "{text}");
    }
}

/// The replicas of a workload with a fixed `claimName` all wait for the same claim.
#[tokio::test(start_paused = true)]
async fn an_obstacle_is_published_on_each_pod() {
    let (notices, sent) = notices("");
    let claim = ObjectName::new("ns", "c");
    let pods = ["1", "2", "3"].map(|uid| User {
        uid: uid.into(),
        ..user("p", true, true)
    });
    let obstacle = |pods: &[User]| {
        let notice = Notice::requester_unknown("c");
        let pods = pods.iter().map(|pod| (pod, notice.clone()));
        notices.obstacle(&claim, pods);
    };
    for (pods, expected) in [(&pods[..1], 1), (&pods, 3), (&pods, 3)] {
        obstacle(pods);
        assert_eq!(count(&sent).await, expected);
    }
    notices.no_obstacle(&claim);
    obstacle(&pods);
    assert_eq!(count(&sent).await, 6);
}

fn caches(claim: Value) -> Caches {
    let claim: ClaimWire = serde_json::from_value(claim).expect("a claim");
    Caches {
        claims: Feed::filled(vec![claim]),
        pods: Feed::filled(Vec::new()),
        policy: Arc::default(),
    }
}

fn pod(annotations: Value) -> Pod {
    let pod = json!({"metadata": {"namespace": "ns", "name": "p", "uid": "1", "annotations": annotations},
        "spec": {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]},
        "status": {"phase": "Pending"}});
    let wire: PodWire = serde_json::from_value(pod).expect("a pod");
    <Pod as crate::objects::Tracked>::track(wire).expect("a pod that requests a claim")
}

#[tokio::test(start_paused = true)]
async fn an_event_that_is_lost_repeats_no_other() {
    let (notices, sent) = notices("a.lost");
    let prefix = crate::objects::claim_requests::PREFIX;
    let pod = pod(json!({format!("{prefix}a.lost"): "1", format!("{prefix}a.kept"): "1"}));
    let (name, caches) = (ObjectName::new("ns", "p"), caches(json!({"metadata": {}})));
    for _ in 0..2 {
        notices.of_pod(&name, Some(&pod), &caches).await;
        count(&sent).await;
    }
    let sent = sent.lock();
    let with = |word: &str| sent.iter().filter(|note| note.contains(word)).count();
    assert_eq!(with("kept"), 1, "{sent:?}");
    assert!(with("lost") >= 2, "{sent:?}");
}

/// Nothing deletes a claim whose marker was written by a clock that is wrong.
#[test]
fn a_claim_with_an_invalid_marker_and_no_owner_is_reported() {
    let caches = |minute: u32, label: Option<&str>| {
        caches(
            json!({"metadata": {"namespace": "ns", "name": "c", "uid": "2",
            "resourceVersion": "1", "labels": label.map(|id| json!({PROVISIONER_LABEL: id})),
            "creationTimestamp": format!("2026-01-01T00:{minute:02}:01Z"),
            "annotations": {"volume-warden.dev/awaiting-pod": "2026-01-01T00:00:00Z"}}}),
        )
    };
    let claim = ObjectName::new("ns", "c");
    let found = |minute, label| shared(&claim, &pod(request_annotations()), &caches(minute, label));
    let reported = Some(Notice::shared("c", &[]));
    assert_eq!(found(9, Some("other")), None);
    assert_eq!(found(10, Some("other")), reported);
    assert_eq!(found(9, None), reported);
}

fn request_annotations() -> Value {
    let prefix = crate::objects::claim_requests::PREFIX;
    let template = super::super::tests::TEMPLATE;
    json!({format!("{prefix}v.enabled"): "true", format!("{prefix}v.pvc"): template})
}
