use super::*;
use crate::cluster::{Elector, Feed, Feeds};
use kube::{Client, client::Body};
use serde_json::{Value, json};
use std::collections::HashSet;
use tokio::time::{Instant, timeout};

/// A reconciler with the StatefulSet `web` and its claim, whose queue is open. The API server does
/// not answer.
fn scene() -> (PvcRetentionReconciler, Arc<WorkQueue<Subject>>) {
    let metrics = Arc::new(Metrics::new());
    let service = tower::service_fn(|_: http::Request<Body>| {
        std::future::pending::<Result<http::Response<Body>, std::io::Error>>()
    });
    let client = Client::new(service, "default");
    let (_, leadership) = Elector::by_hand();
    let feeds = Feeds {
        sets: Feed::filled(vec![read(set())]),
        claims: Feed::filled(vec![read(claim("1"))]),
        ..Feeds::new(&metrics)
    };
    let reconciler = PvcRetentionReconciler {
        caches: Caches::from(&feeds),
        live_sets: LiveGet::new(metrics.clone(), &client),
        live_pods: SharedList::new(metrics.clone(), &client),
        apply: Arc::new(Apply::new(client, leadership, 1, false, metrics)),
        events: Arc::default(),
    };
    let queue = Arc::new(WorkQueue::default());
    queue.open();
    reconciler.listen(&queue);
    (reconciler, queue)
}

fn read<T: serde::de::DeserializeOwned>(object: Value) -> T {
    serde_json::from_value(object).expect("readable")
}

fn set() -> Value {
    let templates = json!([{"metadata": {"name": "data"}}]);
    json!({"metadata": {"namespace": "ns", "name": "web", "uid": "s"}, "spec": {"replicas": 1, "volumeClaimTemplates": templates}})
}

fn claim(version: &str) -> Value {
    json!({"metadata": {"namespace": "ns", "name": "data-web-0", "uid": "c", "resourceVersion": version}})
}

async fn next(queue: &WorkQueue<Subject>) -> Option<Subject> {
    timeout(Duration::from_millis(1), queue.take()).await.ok()
}

/// The API server refuses a patch if the claim has changed. The delivery of that change has to wake
/// the set, although it may have no part in the decision.
#[tokio::test(start_paused = true)]
async fn a_change_of_its_claim_ends_the_backoff_of_a_set() {
    let (reconciler, queue) = scene();
    let web = ObjectName::new("ns", "web");
    let claims = &reconciler.caches.claims;
    claims.hear(read(claim("2")), true);
    assert_eq!(next(&queue).await, None, "nothing had failed");
    queue.add(Subject::Policy(web.clone()));
    let begun = Instant::now();
    let key = next(&queue).await.expect("queued");
    queue.failed(&key, Duration::from_secs(300));
    assert_eq!(next(&queue).await, None, "it waits");
    claims.hear(read(claim("3")), true);
    assert_eq!(next(&queue).await, Some(Subject::Policy(web)));
    assert!(begun.elapsed() < Duration::from_secs(1));
}

/// A set that is deleted while another replica leads is never reconciled here.
#[tokio::test]
async fn events_of_sets_that_no_longer_exist_are_forgotten() {
    let (reconciler, _) = scene();
    let news = |set: &str| {
        let causes = HashSet::from([(Arc::from("data-web-0"), "Reason")]);
        let name = ObjectName::new("ns", set);
        !reconciler.events.news(&name, "s", causes).is_empty()
    };
    assert!(news("web") && news("gone"));
    assert!(!news("web") && !news("gone"));
    assert_eq!(reconciler.candidates().len(), 2);
    assert!(!news("web"), "it exists");
    assert!(news("gone"));
}
