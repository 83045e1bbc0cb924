//! Tests of the Events on claims that are held while being deleted.

use super::HeldClaimReporter;
use crate::{
    awaited::Awaited,
    causes::{Code, FinishedPods},
    clock::Clock,
    cluster::{Apply, Elector, Excluded, Feed, Feeds, test_server::answering},
    hashing::HashSet,
    objects::{ObjectName, claim::ClaimWire, finalizers::PVC_PROTECTION, pod::PodWire},
    telemetry::Metrics,
};
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::{sync::Arc, time::Duration};
use tokio::time::Instant;

/// The time at which all claims were deleted: 2026-01-01T00:00:00Z.
const DELETED: i64 = 1_767_225_600;
const LATER: i64 = DELETED + 3600;

fn claim(name: &str, uid: &str, finalizers: &[&str]) -> ClaimWire {
    let claim = json!({"metadata": {"name": name, "namespace": "ns", "uid": uid,
        "deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": finalizers}});
    serde_json::from_value(claim).expect("a claim")
}

fn pod(claim: &str, phase: &str) -> PodWire {
    let volume = json!({"name": "v", "persistentVolumeClaim": {"claimName": claim}});
    let pod = json!({"metadata": {"name": "web", "namespace": "ns", "uid": "web"},
        "spec": {"nodeName": "n", "volumes": [volume]}, "status": {"phase": phase}});
    serde_json::from_value(pod).expect("a pod")
}

/// The claims `0` to `59` of this namespace, each of which is held by a finalizer.
fn many(namespace: &str) -> Vec<ClaimWire> {
    let of = |number: i32| {
        let mut claim = claim(&number.to_string(), &number.to_string(), &["other"]);
        claim.metadata.namespace = Some(namespace.to_owned());
        claim
    };
    (0..60).map(of).collect()
}

/// A reporter with a simulated API server that accepts Events, except in the namespace `ending`.
/// The namespace `a-out` has opted out.
struct Scene {
    reporter: HeldClaimReporter,
    lead: Arc<Awaited<Option<Instant>>>,
    events: Arc<Mutex<Vec<Value>>>,
}

impl Scene {
    /// A reporter that leads, without claims and pods.
    fn new() -> Self {
        let events = Arc::new(Mutex::new(Vec::new()));
        let recorded = events.clone();
        let client = answering(move |head, event| {
            if head.uri.path().contains("/ending/") {
                return (403, String::new());
            }
            recorded.lock().push(event.clone());
            (200, event.to_string())
        });
        let (lead, leadership) = Elector::for_test();
        let metrics = Arc::new(Metrics::new());
        let feeds = Feeds::new(&metrics);
        let labels = json!({"volume-warden.dev/exclude": "true"});
        let out = json!({"metadata": {"name": "a-out", "uid": "o", "labels": labels}});
        let out = serde_json::from_value(out).expect("a namespace");
        feeds.namespaces.list(vec![out]);
        let apply = Apply::new(client, leadership.clone(), 1, false, metrics)
            .excluding(Excluded::by_label(&feeds, None));
        let reporter = HeldClaimReporter {
            clock: Clock::system(),
            claims: Feed::filled(Vec::new()),
            pods: Feed::filled(Vec::new()),
            apply: Arc::new(apply),
            leadership,
            finished_pods: FinishedPods::Hold,
            events: Arc::default(),
            last: Mutex::new(ObjectName::cluster_scoped("")),
        };
        let scene = Self {
            reporter,
            lead,
            events,
        };
        scene.leads(true);
        scene
    }

    fn leads(&self, leads: bool) {
        let until = Instant::now() + Duration::from_secs(86_400);
        self.lead.replace(leads.then_some(until));
    }

    fn deliver(&self, claim: ClaimWire) {
        self.reporter.claims.deliver(claim, true);
    }

    /// The claim `data`, held by a pod that runs.
    fn used(self) -> Self {
        self.deliver(claim("data", "1", &[PVC_PROTECTION, "other"]));
        self.reporter.pods.deliver(pod("data", "Running"), true);
        self
    }

    /// The notes of the Events of one evaluation at that time.
    async fn evaluate(&self, now: i64) -> Vec<String> {
        self.reporter.evaluate(now);
        tokio::time::sleep(Duration::from_secs(60)).await;
        let published = std::mem::take(&mut *self.events.lock());
        let note = |event: &Value| event["note"].as_str().unwrap_or_default().to_owned();
        published.iter().map(note).collect()
    }
}

const USED: &str = "The claim is kept because pod ns/web uses it. What to do, once neither the pod nor the data of the claim is \
                    needed (the claim is deleted automatically when no pod uses it, and its storage too if the volume's policy is Delete): kubectl delete pod web -n ns";

#[tokio::test(start_paused = true)]
async fn the_holder_of_a_claim_is_reported_once() {
    let scene = Scene::new().used();
    scene.reporter.evaluate(LATER);
    tokio::time::sleep(Duration::from_secs(60)).await;
    let published = scene.events.lock().clone();
    let [event] = &published[..] else {
        panic!("{published:?}");
    };
    assert_eq!(
        (&event["note"], &event["type"]),
        (&json!(USED), &json!("Normal"))
    );
    assert_eq!(event["reason"], "ClaimHeld");
    assert_eq!(event["regarding"]["name"], "data");
    scene.events.lock().clear();
    for _ in 0..3 {
        assert!(scene.evaluate(LATER).await.is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn a_claim_deleted_soon_after_its_pod_is_not_reported() {
    let scene = Scene::new().used();
    assert!(scene.evaluate(DELETED + 9).await.is_empty());
    assert_eq!(scene.evaluate(DELETED + 10).await, [USED]);
}

#[tokio::test(start_paused = true)]
async fn another_cause_is_reported() {
    let scene = Scene::new().used();
    assert_eq!(scene.evaluate(LATER).await.len(), 1);
    scene.reporter.pods.deliver(pod("data", "Succeeded"), true);
    let finished = scene.evaluate(LATER).await;
    assert!(finished.len() == 1 && finished[0].contains("The workload has finished"));
    scene.deliver(claim("data", "1", &["other"]));
    let foreign = scene.evaluate(LATER).await;
    assert!(foreign.len() == 1 && foreign[0].starts_with("The finalizer other keeps the object"));
    assert!(scene.evaluate(LATER).await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_claim_about_to_be_deleted_is_not_reported() {
    let scene = Scene::new();
    scene.deliver(claim("data", "1", &[PVC_PROTECTION, "other"]));
    scene.deliver(claim("gone", "2", &[]));
    assert!(scene.evaluate(LATER).await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn deleted_claims_are_forgotten() {
    let scene = Scene::new().used();
    assert_eq!(scene.evaluate(LATER).await.len(), 1);
    scene.reporter.claims.list(Vec::new());
    assert!(scene.evaluate(LATER).await.is_empty());
    let name = ObjectName::new("ns", "data");
    let known = scene
        .reporter
        .events
        .new_causes(&name, "1", HashSet::from_iter([Code::InUse]));
    assert_eq!(known.len(), 1, "it was forgotten");
    scene.deliver(claim("data", "2", &[PVC_PROTECTION]));
    assert_eq!(scene.evaluate(LATER).await.len(), 1, "another claim");
}

#[tokio::test(start_paused = true)]
async fn only_the_leader_publishes() {
    let scene = Scene::new().used();
    scene.leads(false);
    scene.reporter.evaluate(LATER);
    let name = ObjectName::new("ns", "data");
    let causes = HashSet::from_iter([Code::InUse]);
    let unsaid = scene.reporter.events.new_causes(&name, "1", causes);
    assert_eq!(unsaid.len(), 1, "it did not even try");
    scene.reporter.events.forget(&name);
    scene.leads(true);
    assert_eq!(scene.evaluate(LATER).await, [USED]);
}

#[tokio::test(start_paused = true)]
async fn no_event_before_both_watches_are_complete() {
    let mut scene = Scene::new().used();
    let complete = scene.reporter.pods.clone();
    scene.reporter.pods = Feed::new(Arc::new(Metrics::new()));
    scene.deliver(claim("data", "1", &["other"]));
    assert!(scene.evaluate(LATER).await.is_empty());
    scene.reporter.pods = complete;
    assert_eq!(scene.evaluate(LATER).await.len(), 1);
}

/// If more claims are held than one evaluation may report, later evaluations report the remaining
/// claims.
#[tokio::test(start_paused = true)]
async fn events_for_many_claims_are_spread() {
    let scene = Scene::new();
    let names: Vec<_> = (0..120).map(|number| number.to_string()).collect();
    for name in &names {
        scene.deliver(claim(name, name, &["other"]));
    }
    let mut published = Vec::new();
    for _ in 0..4 {
        published.push(scene.evaluate(LATER).await.len());
    }
    assert_eq!(published, [50, 50, 20, 0]);
}

/// Claims without an Event do not take the places of others: those of a namespace that has opted
/// out, and those of a namespace in which the API server refuses Events.
#[tokio::test(start_paused = true)]
async fn claims_that_get_no_event_do_not_delay_others() {
    for (namespace, expected) in [("a-out", [1, 0]), ("ending", [0, 1])] {
        let scene = Scene::new().used();
        many(namespace)
            .into_iter()
            .for_each(|claim| scene.deliver(claim));
        let published = [scene.evaluate(LATER).await, scene.evaluate(LATER).await];
        assert_eq!(published.map(|notes| notes.len()), expected, "{namespace}");
    }
}
