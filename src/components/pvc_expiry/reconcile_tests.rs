//! Tests of what the reconciler of pvc-expiry writes, with a simulated API server.

#[path = "expire_tests.rs"]
mod expire;

use super::*;
use crate::{
    clock::Clock,
    cluster::{Elector, Excluded, Feed, Feeds, LatestTime, Observation},
    objects::{expiry::EXPIRE_UNUSED, trash::TRASH, undelete_window::UNDELETE_WINDOW},
    telemetry::Metrics,
};
use http_body_util::BodyExt;
use kube::{Client, client::Body};
use parking_lot::Mutex;
use serde_json::Value;
use std::{
    sync::atomic::{AtomicBool, AtomicU16, Ordering},
    time::Duration,
};

/// The claim has been unused since 2026-01-01, and expires after 20 days.
const NOW: &str = "2026-02-01T00:00:00Z";
/// The same time, as the API server sends it.
const DATE: &str = "Sun, 01 Feb 2026 00:00:00 GMT";

fn read<T: serde::de::DeserializeOwned>(object: Value) -> T {
    serde_json::from_value(object).expect("readable")
}

fn claim(annotations: Value) -> Value {
    let unused = json!({"type": "Unused", "status": "True",
        "lastTransitionTime": "2026-01-01T00:00:00Z"});
    let mut claim = json!({
        "metadata": {"namespace": "shop", "name": "data", "uid": "c", "resourceVersion": "1",
            "annotations": {EXPIRE_UNUSED: "20d"}},
        "spec": {"volumeName": "pv"}, "status": {"phase": "Bound", "conditions": [unused]}});
    let changes = json!({"metadata": {"annotations": annotations}});
    json_patch::merge(&mut claim, &changes);
    claim
}

fn volume() -> Value {
    let record = json!({"policy": "Delete", "windowSeconds": 3600,
        "claim": {"namespace": "shop", "name": "data", "uid": "c"}});
    json!({
        "metadata": {"name": "pv", "uid": "v", "annotations": {TRASH: record.to_string()}},
        "spec": {"storageClassName": "fast", "persistentVolumeReclaimPolicy": "Retain",
            "claimRef": {"namespace": "shop", "name": "data", "uid": "c"}},
        "status": {"phase": "Bound"}})
}

fn class(window: &str) -> Value {
    json!({"metadata": {"name": "fast", "annotations": {UNDELETE_WINDOW: window}}})
}

/// An API server without workloads.
struct Api {
    /// The requests: the method and path, and the body.
    sent: Mutex<Vec<(String, String)>>,
    /// The status with which it refuses each write; 0 if it accepts them.
    refusal: AtomicU16,
    is_refusing_lists: AtomicBool,
    /// Whether the claim is deleted between its read and a write.
    is_absent: AtomicBool,
    /// Its time.
    date: Mutex<&'static str>,
    claim: Mutex<Value>,
    /// The pods that a LIST shows.
    pods: Mutex<Vec<Value>>,
}

/// The number of bulk writes at the same time.
const IN_FLIGHT: usize = 8;

/// A reconciler that leads, with one claim.
struct Scene {
    reconciler: PvcExpiryReconciler,
    feeds: Feeds,
    api: Arc<Api>,
}

impl Scene {
    fn new(annotations: Value) -> Self {
        let api = Arc::new(Api {
            sent: Mutex::default(),
            refusal: AtomicU16::new(0),
            is_refusing_lists: AtomicBool::new(false),
            is_absent: AtomicBool::new(false),
            date: Mutex::new(DATE),
            claim: Mutex::new(claim(annotations.clone())),
            pods: Mutex::default(),
        });
        let server = api.clone();
        let service = tower::service_fn(move |request| server.clone().answer(request));
        let now: Timestamp = NOW.parse().expect("a time");
        let now = time::OffsetDateTime::from_unix_timestamp(now.as_second()).expect("a time");
        let time = LatestTime::new(Clock::new(move || now));
        let client = time.observing(&Client::new(service, "default"));
        let metrics = Arc::new(Metrics::new());
        let feeds = Feeds {
            claims: Feed::filled(vec![read(claim(annotations))]),
            volumes: Feed::filled(vec![read(volume())]),
            pods: Feed::filled(vec![]),
            classes: Feed::filled(vec![read(class("72h"))]),
            ..Feeds::new(&metrics)
        };
        let (lead, leadership) = Elector::for_test();
        lead.replace(Some(Instant::now() + Duration::from_secs(86_400)));
        let excluded = Excluded::by_label(&feeds, None);
        let observation = Arc::new(Observation::default());
        observation.begin(Timestamp::UNIX_EPOCH);
        let apply = Apply::new(
            client.clone(),
            leadership,
            IN_FLIGHT,
            false,
            metrics.clone(),
        );
        let reconciler = PvcExpiryReconciler {
            caches: Caches::new(&feeds, observation, time, excluded.clone()),
            live: Live::new(&metrics, &client, Vec::new(), None),
            apply: Arc::new(apply.excluding(excluded)),
            limit: HourlyLimit::new(20),
            first_evaluations: Default::default(),
            named: Default::default(),
            reported: Arc::default(),
            announced: Arc::default(),
            unread: Arc::default(),
            classes: Arc::default(),
        };
        Self {
            reconciler,
            feeds,
            api,
        }
    }

    fn opt(&self, out: bool) {
        let label = json!({"volume-warden.dev/exclude": out.to_string()});
        let namespace = json!({"metadata": {"name": "shop", "uid": "n", "labels": label}});
        self.feeds.namespaces.list(vec![read(namespace)]);
    }

    /// The bodies that were sent with this method to paths that contain this text, which are then
    /// forgotten.
    fn sent(&self, method: &str, path: &str) -> Vec<String> {
        let sent = std::mem::take(&mut *self.api.sent.lock());
        let found = sent
            .into_iter()
            .filter(|(line, _)| line.starts_with(method) && line.contains(path));
        found.map(|(_, body)| body).collect()
    }
}

impl Api {
    async fn answer(
        self: Arc<Self>,
        request: http::Request<Body>,
    ) -> std::io::Result<http::Response<Body>> {
        let line = format!("{} {}", request.method(), request.uri().path());
        let is_change = matches!(request.method().as_str(), "PATCH" | "DELETE");
        let object = self.object(request.uri().path());
        let is_absent = is_change && self.is_absent.load(Ordering::SeqCst);
        let refusal = if request.method() != http::Method::GET {
            self.refusal.load(Ordering::SeqCst)
        } else if self.is_refusing_lists.load(Ordering::SeqCst) {
            403
        } else {
            0
        };
        let body = request.into_body().collect().await.expect("a body");
        let body = String::from_utf8_lossy(&body.to_bytes()).into_owned();
        let answer = if line.starts_with("POST") {
            body.clone()
        } else if is_absent {
            json!({"kind": "Status", "apiVersion": "v1", "code": 404,
                "status": "Failure", "reason": "NotFound", "message": "not found"})
            .to_string()
        } else {
            object.to_string()
        };
        self.sent.lock().push((line, body));
        let response = http::Response::builder().status(match (refusal, is_absent) {
            (0, true) => 404,
            (0, false) => 200,
            (refusal, _) => refusal,
        });
        let response = response.header(http::header::DATE, *self.date.lock());
        let response = response.body(Body::from(answer.into_bytes()));
        Ok(response.expect("a response"))
    }

    /// The object at this path, the list of pods, or an empty list.
    fn object(&self, path: &str) -> Value {
        let items = match path.rsplit('/').next() {
            Some("data") => return self.claim.lock().clone(),
            Some("pv") => return volume(),
            Some("fast") => return class("72h"),
            Some("shop") => return json!({"metadata": {"name": "shop", "uid": "n"}}),
            Some("pods") => self.pods.lock().clone(),
            _ => Vec::new(),
        };
        json!({"apiVersion": "v1", "kind": "List", "metadata": {}, "items": items})
    }
}

fn name() -> ObjectName {
    ObjectName::new("shop", "data")
}

/// Otherwise the claim would be deleted soon after the namespace has opted in again.
#[tokio::test(start_paused = true)]
async fn a_namespace_that_opts_out_loses_the_announcement() {
    let scene = Scene::new(json!({EXPIRES_AT: "2026-01-28T00:00:00Z"}));
    scene.opt(true);
    assert_eq!(scene.reconciler.candidates(), [name()]);
    let outcome = scene.reconciler.reconcile(&name()).await;
    outcome.expect("the announcement is removed");
    let patches = scene.sent("PATCH", "/persistentvolumeclaims/data");
    assert_eq!(patches.len(), 1, "{patches:?}");
    assert!(patches[0].contains("\"remove\"") && patches[0].contains("expires-at"));
    scene.feeds.claims.deliver(read(claim(json!({}))), true);
    assert_eq!(scene.reconciler.candidates(), []);
    scene.reconciler.reconcile(&name()).await.expect("nothing");
    assert_eq!(scene.sent("PATCH", "").len(), 0);
    scene.opt(false);
    let claim = scene.reconciler.caches.claim(&name()).expect("a claim");
    let week_later = "2026-02-08T00:00:00Z".parse().expect("a time");
    let decision = scene.reconciler.caches.judge(&name(), &claim);
    assert_eq!(decision, Decision::Announce(week_later));
}

/// The claim was deleted, which the watch has not delivered yet.
#[tokio::test(start_paused = true)]
async fn no_event_says_that_a_claim_which_does_not_exist_is_kept() {
    for absent in [true, false] {
        let announced = json!({EXPIRES_AT: "2026-01-28T00:00:00Z", EXPIRE_UNUSED: "off"});
        let scene = Scene::new(announced);
        scene.api.is_absent.store(absent, Ordering::SeqCst);
        let outcome = scene.reconciler.reconcile(&name()).await;
        assert_eq!(outcome.is_err(), absent, "{outcome:?}");
        tokio::time::sleep(Duration::from_secs(1)).await;
        let events = scene.sent("POST", "/events").len();
        assert_eq!(events, usize::from(!absent));
    }
}

/// Another client deleted the claim after it was read live.
#[tokio::test(start_paused = true)]
async fn no_event_says_that_a_claim_which_does_not_exist_expired() {
    for absent in [true, false] {
        let scene = Scene::new(json!({EXPIRES_AT: "2026-01-28T00:00:00Z"}));
        scene.api.is_absent.store(absent, Ordering::SeqCst);
        let first = scene.reconciler.reconcile(&name()).await;
        assert!(matches!(first, Ok(Requeue::After(..))), "{first:?}");
        tokio::time::advance(Duration::from_secs(61)).await;
        let second = scene.reconciler.reconcile(&name()).await;
        assert_eq!(second.is_err(), absent, "{second:?}");
        tokio::time::sleep(Duration::from_secs(1)).await;
        let events = scene.sent("POST", "/events");
        assert_eq!(events.len(), usize::from(!absent), "{events:?}");
        assert!(events.iter().all(|event| event.contains("Expired")));
    }
}

/// A pod that uses the claim.
fn pod() -> Value {
    json!({"metadata": {"namespace": "shop", "name": "job", "uid": "p"},
        "spec": {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]}})
}

/// A pod uses the claim during the live reads, and ends before they list the pods.
#[tokio::test(start_paused = true)]
async fn a_claim_that_was_used_during_the_reads_is_kept() {
    for used in [true, false] {
        let scene = Scene::new(json!({EXPIRES_AT: "2026-01-28T00:00:00Z"}));
        scene.reconciler.reconcile(&name()).await.expect("waits");
        tokio::time::advance(Duration::from_secs(61)).await;
        let short = async {
            if used {
                scene.feeds.pods.deliver(read(pod()), true);
                scene.feeds.pods.deliver(read(pod()), false);
            }
        };
        let name = name();
        let (second, ()) = tokio::join!(scene.reconciler.reconcile(&name), short);
        assert_eq!(second.is_err(), used, "{second:?}");
        assert_eq!(scene.sent("DELETE", "").len(), usize::from(!used));
    }
}

/// The deletion waits for other writes, and meanwhile the watch shows a new pod that uses the
/// claim.
#[tokio::test(start_paused = true)]
async fn a_claim_that_is_used_while_its_deletion_waits_is_kept() {
    let scene = Scene::new(json!({EXPIRES_AT: "2026-01-28T00:00:00Z"}));
    scene.reconciler.reconcile(&name()).await.expect("waits");
    tokio::time::advance(Duration::from_secs(61)).await;
    let (name, lanes) = (name(), &scene.reconciler.apply.lanes);
    let mut permits = Vec::new();
    for _ in 0..IN_FLIGHT {
        permits.push(lanes.permit(Lane::Bulk, &name.namespace).await);
    }
    let meanwhile = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        scene.feeds.pods.deliver(read(pod()), true);
        drop(permits);
    };
    let (second, ()) = tokio::join!(scene.reconciler.reconcile(&name), meanwhile);
    second.expect_err("nothing was written");
    assert_eq!(scene.sent("DELETE", "").len(), 0);
    assert_eq!(scene.reconciler.first_evaluations.waiting(), 0);
}

/// A tenant can have the deletions of claims refused, by a policy, or end in a conflict, by
/// updates. They must not delay those of other claims. One without an answer, as with a slow
/// webhook, is not repeated at once.
#[tokio::test(start_paused = true)]
async fn a_claim_whose_deletion_is_refused_returns_its_slot() {
    for refusal in [403, 409, 504, 0] {
        let scene = Scene::new(json!({EXPIRES_AT: "2026-01-28T00:00:00Z"}));
        scene.reconciler.reconcile(&name()).await.expect("waits");
        assert_eq!(scene.reconciler.first_evaluations.waiting(), 1);
        tokio::time::advance(Duration::from_secs(61)).await;
        scene.api.refusal.store(refusal, Ordering::SeqCst);
        let second = scene.reconciler.reconcile(&name()).await;
        assert_eq!(second.is_err(), refusal != 0, "{second:?}");
        assert_eq!(scene.reconciler.first_evaluations.waiting(), 0, "{refusal}");
        if let (403 | 504, Err(error)) = (refusal, second) {
            assert!(format!("{error:?}").contains("(600s)"), "{error:?}");
        }
    }
}

/// A tenant can also cause errors of the reads, by an object that `--expiry-references` cannot
/// read.
#[tokio::test(start_paused = true)]
async fn a_claim_whose_reads_fail_returns_its_slot() {
    let scene = Scene::new(json!({EXPIRES_AT: "2026-01-28T00:00:00Z"}));
    scene.reconciler.reconcile(&name()).await.expect("waits");
    tokio::time::advance(Duration::from_secs(61)).await;
    scene.api.is_refusing_lists.store(true, Ordering::SeqCst);
    let second = scene.reconciler.reconcile(&name()).await;
    assert!(second.is_err(), "{second:?}");
    assert_eq!(scene.reconciler.first_evaluations.waiting(), 0);
}

/// The clock of this process is two days slow. The next leader may have a correct one.
#[tokio::test(start_paused = true)]
async fn an_announcement_is_a_week_ahead_by_the_clock_of_the_api_server() {
    for (date, announced) in [
        (DATE, "2026-02-08T00:00:00Z"),
        ("Tue, 03 Feb 2026 00:00:00 GMT", "2026-02-10T00:00:00Z"),
    ] {
        let scene = Scene::new(json!({}));
        *scene.api.date.lock() = date;
        scene
            .reconciler
            .reconcile(&name())
            .await
            .expect("announced");
        let patches = scene.sent("PATCH", "/persistentvolumeclaims/data");
        assert!(patches[0].contains(announced), "{patches:?}");
    }
}

/// The response to the patch may be lost, or its Event, or the lead may change between them.
#[tokio::test(start_paused = true)]
async fn an_announcement_is_published_once_also_by_a_new_leader() {
    let scene = Scene::new(json!({EXPIRES_AT: "2026-02-08T00:00:00Z"}));
    let published = async || {
        scene.reconciler.reconcile(&name()).await.expect("waits");
        tokio::time::sleep(Duration::from_secs(1)).await;
        scene.sent("POST", "/events")
    };
    scene.api.refusal.store(403, Ordering::SeqCst);
    assert_eq!(published().await.len(), 1, "refused");
    scene.api.refusal.store(0, Ordering::SeqCst);
    let events = published().await;
    assert_eq!(events.len(), 1, "again");
    assert!(events[0].contains("will be deleted at 2026-02-08T00:00:00Z"));
    assert_eq!(published().await.len(), 0, "once");
    let earlier = claim(json!({EXPIRES_AT: "2026-02-07T00:00:00Z"}));
    scene.feeds.claims.deliver(read(earlier), true);
    assert_eq!(published().await.len(), 1, "another time");
}

/// A slot is returned after the first evaluation, so without another limit all due claims would be
/// read.
#[tokio::test(start_paused = true)]
async fn no_more_claims_are_read_than_may_be_deleted() {
    let scene = Scene::new(json!({EXPIRES_AT: "2026-01-28T00:00:00Z"}));
    for number in 0..20 {
        let other = ObjectName::new("shop", number.to_string());
        scene
            .reconciler
            .first_evaluations
            .record(&other, &"other".into());
    }
    let outcome = scene.reconciler.reconcile(&name()).await;
    let Ok(Requeue::After(delay, why)) = outcome else {
        panic!("{outcome:?}");
    };
    assert_eq!(delay, Duration::from_secs(60), "{why}");
    assert_eq!(scene.sent("GET", "").len(), 0, "nothing is read");
}

/// The deletion of a claim enqueues no reconcile, but that of its second evaluation is due a minute
/// later.
#[tokio::test(start_paused = true)]
async fn a_claim_that_was_deleted_returns_its_slot() {
    let scene = Scene::new(json!({EXPIRES_AT: "2026-01-28T00:00:00Z"}));
    scene.reconciler.reconcile(&name()).await.expect("waits");
    scene.feeds.claims.list(vec![]);
    scene.reconciler.reconcile(&name()).await.expect("absent");
    assert_eq!(scene.reconciler.first_evaluations.waiting(), 0);
}

/// The resync enqueues each claim every ten minutes.
#[tokio::test(start_paused = true)]
async fn what_names_a_claim_is_read_once_an_hour() {
    let scene = Scene::new(json!({}));
    let uid = scene.reconciler.caches.claim(&name()).expect("a claim");
    let uid = &uid.uid;
    scene.reconciler.named.remember(&name(), uid, "a CronJob");
    for (minutes, reads) in [(10, false), (49, false), (1, true)] {
        tokio::time::advance(Duration::from_secs(minutes * 60)).await;
        scene.reconciler.reconcile(&name()).await.expect("waits");
        let read = !scene.sent("GET", "/cronjobs").is_empty();
        assert_eq!(read, reads, "{minutes}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_event_reports_once_that_what_names_a_claim_cannot_be_read() {
    let scene = Scene::new(json!({}));
    scene.api.is_refusing_lists.store(true, Ordering::SeqCst);
    for events in [1, 0] {
        let outcome = scene.reconciler.reconcile(&name()).await;
        assert!(outcome.is_err(), "{outcome:?}");
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(scene.sent("POST", "/events").len(), events);
    }
}
