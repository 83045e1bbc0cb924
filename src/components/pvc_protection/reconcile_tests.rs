//! Which LISTs of pods decide about claims that are deleted together.

#[path = "retry_tests.rs"]
mod retries;

use super::*;
use crate::cluster::{Elector, Feeds, Lane, WorkQueue};
use http_body_util::BodyExt as _;
use kube::{Client, client::Body};
use parking_lot::Mutex;
use serde_json::{Value, json};

/// An API server with these pods, whose LIST takes a second, and the requests that it got.
#[derive(Default)]
struct Server {
    pods: Mutex<Vec<Value>>,
    /// The methods of the requests that fail next.
    faults: Mutex<Vec<&'static str>>,
    requests: Mutex<Vec<String>>,
}

impl Server {
    async fn answer(&self, request: http::Request<Body>) -> http::Response<Body> {
        let path = request.uri().path().to_owned();
        self.requests
            .lock()
            .push(format!("{} {path}", request.method()));
        if self.fails(request.method().as_str()) {
            let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 403, "reason": "Forbidden", "message": "not today"});
            let mut answer = http::Response::new(Body::from(status.to_string().into_bytes()));
            *answer.status_mut() = http::StatusCode::FORBIDDEN;
            return answer;
        }
        let _ = request.into_body().collect().await;
        let answer = if path.ends_with("/pods") {
            let items = self.pods.lock().clone();
            tokio::time::sleep(Duration::from_secs(1)).await;
            json!({"apiVersion": "v1", "kind": "PodList", "metadata": {}, "items": items})
        } else {
            json!({"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata", "metadata": {}})
        };
        http::Response::new(Body::from(answer.to_string().into_bytes()))
    }

    /// Whether this request fails; the next one of its method may not.
    fn fails(&self, method: &str) -> bool {
        let mut faults = self.faults.lock();
        let place = faults.iter().position(|fault| *fault == method);
        place.map(|place| faults.remove(place)).is_some()
    }

    fn number_of(&self, method: &str) -> usize {
        let requests = self.requests.lock();
        requests
            .iter()
            .filter(|each| each.starts_with(method))
            .count()
    }
}

fn read<T: serde::de::DeserializeOwned>(object: Value) -> T {
    serde_json::from_value(object).expect("readable")
}

/// A claim that is being deleted.
fn claim(name: &str) -> Value {
    json!({"metadata": {"namespace": "ns", "name": name, "uid": name, "resourceVersion": "1",
        "deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": [PVC_PROTECTION]}})
}

/// A running pod that uses the claim of its name.
fn pod(name: &str) -> Value {
    let volume = json!({"name": "v", "persistentVolumeClaim": {"claimName": name}});
    json!({"metadata": {"namespace": "ns", "name": name, "uid": name},
        "spec": {"nodeName": "n", "volumes": [volume]}})
}

/// A reconciler, its watches and its API server.
struct Scene {
    server: Arc<Server>,
    feeds: Feeds,
    reconciler: PvcProtectionReconciler,
}

impl Scene {
    /// The pod was seen to leave, and its claim is reconciled.
    async fn leaves(&self, name: &str) {
        self.feeds.pods.deliver(read(pod(name)), false);
        let name = ObjectName::new("ns", name);
        self.reconciler.reconcile(&name).await.expect("no failure");
    }
}

/// The claims `a` and `b`, which are being deleted and are used by the pods of their names. A LIST
/// shows `pods`.
fn scene(pods: Vec<Value>) -> Scene {
    let (server, metrics) = (Arc::new(Server::default()), Arc::new(Metrics::new()));
    *server.pods.lock() = pods;
    let answering = server.clone();
    let service = tower::service_fn(move |request| {
        let server = answering.clone();
        async move { Ok::<_, std::io::Error>(server.answer(request).await) }
    });
    let client = Client::new(service, "default");
    let (lead, leadership) = Elector::for_test();
    lead.replace(Some(Instant::now() + Duration::from_secs(60)));
    let feeds = Feeds {
        claims: Feed::filled(vec![]),
        pods: Feed::filled(vec![read(pod("a")), read(pod("b"))]),
        ..Feeds::new(&metrics)
    };
    let reconciler = PvcProtectionReconciler {
        claims: feeds.claims.clone(),
        pods: feeds.pods.clone(),
        live_pods: SharedList::new(metrics.clone(), &client),
        apply: Arc::new(Apply::new(client, leadership, 2, false, metrics)),
        finished_pods: FinishedPods::Hold,
        last_seen: Arc::default(),
    };
    reconciler.listen(&Arc::new(WorkQueue::default()));
    for name in ["a", "b"] {
        feeds.claims.deliver(read(claim(name)), true);
    }
    Scene {
        server,
        feeds,
        reconciler,
    }
}

/// A user may update a pod all the time, and it may name a thousand claims.
#[tokio::test(start_paused = true)]
async fn an_update_of_a_pod_that_changes_nothing_enqueues_no_claim() {
    let scene = scene(Vec::new());
    let queue = Arc::new(WorkQueue::default());
    queue.open();
    scene.reconciler.listen(&queue);
    let mut ended = pod("a");
    ended["status"]["phase"] = "Failed".into();
    scene.feeds.pods.deliver(read(ended.clone()), true);
    assert!(!queue.is_empty(), "it may not use its claim any more");
    let key = queue.take().await;
    queue.done(&key);
    ended["metadata"]["annotations"] = json!({"any": "text"});
    scene.feeds.pods.deliver(read(ended), true);
    assert!(queue.is_empty());
}

/// The pod of `a` is seen to leave before a LIST of pods begins, that of `b` while it is under way.
/// Returns the server, which has `pods` until the first LIST has begun.
async fn both_are_released(pods: Vec<Value>) -> Arc<Server> {
    let scene = scene(pods);
    let second = async {
        tokio::time::sleep(Duration::from_millis(500)).await;
        scene.server.pods.lock().clear();
        scene.leaves("b").await;
    };
    tokio::join!(scene.leaves("a"), second);
    assert_eq!(scene.server.number_of("PATCH"), 2, "both are released");
    scene.server
}

#[tokio::test(start_paused = true)]
async fn a_list_under_way_decides_about_a_claim_that_it_shows_unused() {
    let server = both_are_released(vec![]).await;
    assert_eq!(server.number_of("GET"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_later_list_decides_if_it_shows_a_pod_that_has_left() {
    let server = both_are_released(vec![pod("b")]).await;
    assert_eq!(server.number_of("GET"), 2);
}

/// A pod may get its node after the deletion of its claim, if it was scheduled before, and the
/// watch may deliver it late.
#[tokio::test(start_paused = true)]
async fn a_list_from_long_before_a_pod_left_does_not_decide() {
    let scene = scene(vec![]);
    scene.leaves("a").await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    scene.server.pods.lock().push(later_pod());
    scene.feeds.pods.deliver(read(pod("b")), false);
    let b = ObjectName::new("ns", "b");
    scene
        .reconciler
        .reconcile(&b)
        .await
        .expect_err("it is used");
    let counts = ["GET", "PATCH"].map(|method| scene.server.number_of(method));
    assert_eq!(counts, [2, 1], "b is kept");
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_the_watch_delivers_during_the_list_keeps_its_claim() {
    let scene = scene(vec![]);
    let meanwhile = async {
        tokio::time::sleep(Duration::from_millis(500)).await;
        scene.feeds.pods.deliver(read(later_pod()), true);
    };
    tokio::join!(scene.leaves("b"), meanwhile);
    let counts = ["GET", "PATCH"].map(|method| scene.server.number_of(method));
    assert_eq!(counts, [1, 0], "b is kept");
}

/// Thousands of writes may be before the removal.
#[tokio::test(start_paused = true)]
async fn a_pod_that_the_watch_delivers_while_the_removal_waits_keeps_its_claim() {
    let scene = scene(vec![]);
    scene.feeds.pods.deliver(read(pod("b")), false);
    let (b, lanes) = (ObjectName::new("ns", "b"), &scene.reconciler.apply.lanes);
    let permits = [
        lanes.permit(Lane::Bulk, &b.namespace).await,
        lanes.permit(Lane::Bulk, &b.namespace).await,
    ];
    let meanwhile = async {
        tokio::time::sleep(Duration::from_secs(5)).await;
        scene.feeds.pods.deliver(read(later_pod()), true);
        drop(permits);
    };
    let (removed, ()) = tokio::join!(scene.reconciler.reconcile(&b), meanwhile);
    removed.expect_err("nothing was written");
    let counts = ["GET", "PATCH"].map(|method| scene.server.number_of(method));
    assert_eq!(counts, [1, 0], "b is kept");
}

/// Another pod that uses the claim `b`.
fn later_pod() -> Value {
    let mut later = pod("b");
    json_patch::merge(&mut later, &json!({"metadata": {"name": "c", "uid": "c"}}));
    later
}

/// A new leader protects the claims without their finalizer before it releases others.
#[tokio::test]
async fn a_claim_without_its_finalizer_is_urgent() {
    let scene = scene(vec![]);
    let mut unprotected = claim("c");
    unprotected["metadata"]["deletionTimestamp"].take();
    unprotected["metadata"]["finalizers"].take();
    scene.feeds.claims.deliver(read(unprotected), true);
    let urgent = |name| scene.reconciler.is_urgent(&ObjectName::new("ns", name));
    assert_eq!(
        [urgent("a"), urgent("c"), urgent("absent")],
        [false, true, false]
    );
}
