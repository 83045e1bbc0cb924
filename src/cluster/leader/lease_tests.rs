//! Tests of the leader election.

use super::super::held::DURATION;
use super::*;
use kube::{Client, client::Body};
use serde_json::{Value, json};
use std::{collections::BTreeMap, sync::Mutex};

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

#[test]
fn the_page_about_plumber_cd_has_the_times_of_the_election() {
    let page = include_str!("../../../docs/migrating/plumber-cd.md");
    let page = page.split_whitespace().collect::<Vec<_>>().join(" ");
    for (part, time) in [
        ("the Lease expires in", DURATION),
        ("that cannot renew it stops after", RENEW_DEADLINE),
        ("replicas try to acquire it every", FOLLOW_PERIOD),
    ] {
        let part = format!("{part} {} s (", time.as_secs_f64());
        assert!(page.contains(&part), "{part}");
    }
}

/// A renewal that is one second late counts as a loss: a task that waits for the loss is woken,
/// although this replica leads again by then.
#[tokio::test(start_paused = true)]
async fn a_late_renewal_is_a_loss() {
    let (lead, leadership) = Elector::by_hand();
    lead.replace(Some(Instant::now() + seconds(10)));
    let watched = leadership.clone();
    let lost = tokio::spawn(async move { watched.lost().await });
    tokio::time::sleep(seconds(8)).await;
    lead.replace(Some(Instant::now() + seconds(10)));
    tokio::time::sleep(seconds(9)).await;
    assert!(leadership.holds() && !lost.is_finished(), "renewed in time");
    tokio::time::sleep(seconds(2)).await;
    lead.replace(Some(Instant::now() + seconds(10)));
    assert!(leadership.holds());
    lost.await.expect("reports even a short loss");
}

/// Leases by their names, with their holders, as an API server stores them.
#[derive(Clone, Default)]
struct Leases(Arc<Mutex<BTreeMap<String, Value>>>);

impl Leases {
    fn holder(&self, name: &str) -> String {
        let leases = self.0.lock().expect("lock");
        let holder = leases
            .get(name)
            .map(|lease| &lease["spec"]["holderIdentity"]);
        holder
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned()
    }

    /// Writes the Lease as `holder`, another replica, would.
    fn put(&self, name: &str, holder: &str) {
        let mut leases = self.0.lock().expect("lock");
        let version = leases.values().map(version).max().unwrap_or(0) + 1;
        let lease = json!({
            "metadata": {"name": name, "resourceVersion": version.to_string()},
            "spec": {"holderIdentity": holder, "leaseDurationSeconds": 15, "leaseTransitions": version},
        });
        leases.insert(name.to_owned(), lease);
    }

    fn answer(&self, method: &str, name: &str, body: &[u8]) -> (u16, Value) {
        let known = self.0.lock().expect("lock").get(name).cloned();
        if method == "GET" {
            let absent =
                json!({"kind": "Status", "code": 404, "reason": "NotFound", "status": "Failure"});
            return known.map_or((404, absent), |lease| (200, lease));
        }
        let sent: Value = serde_json::from_slice(body).expect("a Lease");
        let name = sent["metadata"]["name"].as_str().expect("a name");
        let current = known.as_ref().map_or(0, version);
        if method == "PUT" && version(&sent) != current {
            let conflict =
                json!({"kind": "Status", "code": 409, "reason": "Conflict", "status": "Failure"});
            return (409, conflict);
        }
        self.put(
            name,
            sent["spec"]["holderIdentity"].as_str().unwrap_or_default(),
        );
        (200, self.0.lock().expect("lock")[name].clone())
    }

    fn api(&self) -> Api<Lease> {
        let leases = self.clone();
        let service = tower::service_fn(move |request: http::Request<Body>| {
            let leases = leases.clone();
            async move {
                let (head, body) = request.into_parts();
                let body = body.collect_bytes().await.unwrap_or_default();
                let name = head.uri.path().rsplit('/').next().unwrap_or_default();
                let (code, answer) = leases.answer(head.method.as_str(), name, &body);
                let answer = Body::from(answer.to_string().into_bytes());
                let response = http::Response::builder().status(code).body(answer);
                Ok::<_, std::io::Error>(response.expect("a response"))
            }
        });
        Api::namespaced(Client::new(service, "default"), "system")
    }
}

fn version(lease: &Value) -> u64 {
    let version = lease["metadata"]["resourceVersion"].as_str();
    version.and_then(|text| text.parse().ok()).unwrap_or(0)
}

/// A replica of this version waits until one of version 0.1.0 has released its Lease, and then
/// holds the Leases of both versions.
#[tokio::test(start_paused = true)]
async fn two_versions_never_lead_at_once() {
    let leases = Leases::default();
    leases.put("old", "replica-of-0.1.0");
    let name = LeaseName {
        namespace: "system".into(),
        name: "new".into(),
        identity: "own".into(),
        former: Some("old".into()),
        labels: BTreeMap::new(),
    };
    let metrics = Arc::new(Metrics::new());
    let (elector, leadership) = Elector::new(leases.api(), name, metrics, Clock::system());
    let stop = CancellationToken::new();
    let running = tokio::spawn(elector.run(stop.clone()));
    for _ in 0..30 {
        // The other replica renews its Lease, as it does every two seconds.
        leases.put("old", "replica-of-0.1.0");
        tokio::time::sleep(seconds(2)).await;
        assert!(!leadership.holds(), "the other version leads");
    }
    assert_eq!(leases.holder("new"), "own");
    leases.put("old", "");
    tokio::time::sleep(seconds(2)).await;
    assert!(leadership.holds());
    assert_eq!(leases.holder("old"), "own");
    // The leadership ends when another process holds one of the two Leases.
    leases.put("old", "replica-of-0.1.0");
    tokio::time::sleep(seconds(3)).await;
    assert!(!leadership.holds());
    leases.put("old", "");
    tokio::time::sleep(seconds(3)).await;
    assert!(leadership.holds());
    stop.cancel();
    running.await.expect("ends");
    assert_eq!(
        (leases.holder("new"), leases.holder("old")),
        (String::new(), String::new())
    );
}
