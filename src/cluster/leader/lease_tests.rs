//! Tests of the leader election.

use super::super::held::LEASE_DURATION;
use super::*;
use crate::clock::Clock;
use crate::cluster::test_server::{answering, failure};
use k8s_openapi::jiff::Timestamp;
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicBool, Ordering},
};

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

#[test]
fn the_page_about_plumber_cd_has_the_times_of_the_election() {
    let page = include_str!("../../../docs/migrating/plumber-cd.md");
    let page = page.split_whitespace().collect::<Vec<_>>().join(" ");
    for (part, time) in [
        ("the Lease expires in", LEASE_DURATION),
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
    let (lead, leadership) = Elector::for_test();
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
        let leases = self.0.lock();
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
        self.store(name, holder, &json!(15));
    }

    fn store(&self, name: &str, holder: &str, seconds: &Value) {
        let mut leases = self.0.lock();
        let version = leases.values().map(version).max().unwrap_or(0) + 1;
        let lease = json!({
            "metadata": {"name": name, "resourceVersion": version.to_string()},
            "spec": {"holderIdentity": holder, "leaseDurationSeconds": seconds, "leaseTransitions": version},
        });
        leases.insert(name.to_owned(), lease);
    }

    fn answer(&self, method: &str, name: &str, sent: Value) -> (u16, Value) {
        let known = self.0.lock().get(name).cloned();
        if method == "GET" {
            return known.map_or(failure(404, "NotFound"), |lease| (200, lease));
        }
        let name = sent["metadata"]["name"].as_str().expect("a name");
        let current = known.as_ref().map_or(0, version);
        if method == "PUT" && version(&sent) != current {
            return failure(409, "Conflict");
        }
        let spec = &sent["spec"];
        let holder = spec["holderIdentity"].as_str().unwrap_or_default();
        self.store(name, holder, &spec["leaseDurationSeconds"]);
        let mut leases = self.0.lock();
        let stored = leases.get_mut(name).expect("a Lease");
        stored["metadata"]["labels"] = sent["metadata"]["labels"].clone();
        drop(leases);
        (200, self.0.lock()[name].clone())
    }

    fn api(&self) -> Api<Lease> {
        self.api_while(Arc::new(AtomicBool::new(true)))
    }

    /// An API server that answers every request with 503 while `reachable` is false.
    fn api_while(&self, reachable: Arc<AtomicBool>) -> Api<Lease> {
        let leases = self.clone();
        let client = answering(move |head, body| {
            let name = head.uri.path().rsplit('/').next().unwrap_or_default();
            if reachable.load(Ordering::SeqCst) {
                leases.answer(head.method.as_str(), name, body)
            } else {
                failure(503, "ServiceUnavailable")
            }
        });
        Api::namespaced(client, "system")
    }
}

fn lease_name(name: &str, former: Option<&str>) -> LeaseName {
    LeaseName {
        namespace: "system".into(),
        name: name.into(),
        identity: "own".into(),
        former: former.map(Into::into),
        labels: BTreeMap::new(),
    }
}

fn version(lease: &Value) -> u64 {
    let version = lease["metadata"]["resourceVersion"].as_str();
    version.and_then(|text| text.parse().ok()).unwrap_or(0)
}

/// The watches may have missed changes while the API server did not answer.
#[tokio::test(start_paused = true)]
async fn an_outage_of_the_api_server_begins_a_new_observation() {
    let leases = Leases::default();
    let reachable = Arc::new(AtomicBool::new(true));
    let name = lease_name("new", None);
    let [began, date, known, end]: [Timestamp; 4] = [
        "2026-01-01T01:00:00Z",
        "2026-01-01T09:00:00Z",
        "2026-01-01T09:00:36Z",
        "2026-01-01T09:00:38Z",
    ]
    .map(|time| time.parse().expect("a time"));
    let api = leases.api_while(reachable.clone());
    // The clock of this replica is years behind.
    let clock = Clock::new(|| time::OffsetDateTime::UNIX_EPOCH);
    let mut held = HeldLease::new(api, name, LatestTime::after_answer(clock, date));
    let observation = Arc::new(Observation::default());
    held.observe(observation.clone());
    observation.begin(began);
    for (pause, is_up, since) in [
        (2, true, began),
        (10, false, began),
        (4, true, began),
        (10, false, began),
        (10, false, known),
        (2, true, end),
        (2, true, end),
    ] {
        tokio::time::sleep(seconds(pause)).await;
        reachable.store(is_up, Ordering::SeqCst);
        assert_eq!(held.attempt().await.is_ok(), is_up);
        assert_eq!(observation.since(), Some(since), "after {pause} s");
    }
}

/// The only replica of a Deployment releases its Lease as soon as its successor is ready.
#[tokio::test(start_paused = true)]
async fn the_observation_of_a_leader_that_releases_the_lease_is_taken_over() {
    let leases = Leases::default();
    let held_by = |holder: &str| {
        leases.put("new", holder);
        leases.0.lock().get_mut("new").expect("a Lease")["metadata"]["annotations"] =
            json!({"volume-warden.dev/observed-since": "2026-01-01T01:00:00Z former *"});
    };
    let time = LatestTime::new(Clock::system());
    let mut held = HeldLease::new(leases.api(), lease_name("new", None), time);
    let observation = Arc::new(Observation::default());
    held.observe(observation.clone());
    let [former, own]: [Timestamp; 2] =
        ["2026-01-01T01:00:00Z", "2026-01-01T09:00:00Z"].map(|at| at.parse().expect("a time"));
    observation.begin(own);
    held_by("former");
    assert!(!held.attempt().await.expect("a Lease"));
    assert_eq!(observation.since(), Some(own));
    held_by("");
    assert!(held.attempt().await.expect("a Lease"));
    assert_eq!(observation.since(), Some(former));
}

/// A replica of this version waits until one of version 0.1.0 has released its Lease, and then
/// holds the Leases of both versions.
#[tokio::test(start_paused = true)]
async fn two_versions_never_lead_at_once() {
    let leases = Leases::default();
    leases.put("old", "replica-of-0.1.0");
    let name = lease_name("new", Some("old"));
    let metrics = Arc::new(Metrics::new());
    let (elector, leadership) = Elector::new(
        leases.api(),
        name,
        metrics,
        LatestTime::new(Clock::system()),
    );
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

/// The deletion of a Lease does not stop its holder, which leads until its deadline.
#[tokio::test(start_paused = true)]
async fn a_deleted_lease_does_not_end_the_time_of_its_holder() {
    let leases = Leases::default();
    leases.put("new", "other");
    let metrics = Arc::new(Metrics::new());
    let name = lease_name("new", None);
    let (elector, leadership) = Elector::new(
        leases.api(),
        name,
        metrics,
        LatestTime::new(Clock::system()),
    );
    let running = tokio::spawn(elector.run(CancellationToken::new()));
    tokio::time::sleep(seconds(5)).await;
    leases.0.lock().remove("new");
    for _ in 5..15 {
        assert!(!leadership.holds());
        tokio::time::sleep(seconds(1)).await;
    }
    tokio::time::sleep(seconds(3)).await;
    assert!(leadership.holds());
    running.abort();
}

/// Two replicas run, and the first one, which leads, stops after `time`, or is killed. Returns how
/// long no replica leads.
async fn gap(time: Duration, is_killed: bool) -> Duration {
    let leases = Leases::default();
    let start = |identity: &str| {
        let name = LeaseName {
            identity: identity.to_owned(),
            ..lease_name("new", None)
        };
        let metrics = Arc::new(Metrics::new());
        let (elector, leadership) = Elector::new(
            leases.api(),
            name,
            metrics,
            LatestTime::new(Clock::system()),
        );
        let stop = CancellationToken::new();
        let running = tokio::spawn(elector.run(stop.clone()));
        (leadership, stop, running)
    };
    let (first, stop, running) = start("first");
    first.gained().await;
    let (second, _, following) = start("second");
    tokio::time::sleep(time).await;
    assert!(!second.holds(), "one leads at a time");
    if is_killed {
        running.abort()
    } else {
        stop.cancel()
    }
    let ended = Instant::now();
    second.gained().await;
    following.abort();
    ended.elapsed()
}

/// The shortest and the longest gap, whenever the leader ends between two renewals.
async fn gaps(is_killed: bool) -> (Duration, Duration) {
    let (mut shortest, mut longest) = (Duration::MAX, Duration::ZERO);
    for tenth in 0..60 {
        let time = seconds(10) + Duration::from_millis(tenth * 100 + 50);
        let gap = gap(time, is_killed).await;
        (shortest, longest) = (shortest.min(gap), longest.max(gap));
    }
    (shortest, longest)
}

#[tokio::test(start_paused = true)]
async fn another_replica_leads_when_the_page_says_so() {
    let page = include_str!("../../../docs/operations/failures.md");
    let (_, longest) = gaps(false).await;
    let within = longest.as_secs() + 1;
    let shut_down = format!("shut down | nothing; another replica leads within {within} s |");
    assert!(page.contains(&shut_down), "{shut_down}");
    // A killed leader has renewed the Lease up to one period before. Its renewal is seen by the
    // next attempt of the other replica, which leads with the first attempt after the expiry.
    let (shortest, longest) = gaps(true).await;
    assert!(shortest + RENEW_PERIOD > LEASE_DURATION, "{shortest:?}");
    assert!(longest < LEASE_DURATION + FOLLOW_PERIOD * 2, "{longest:?}");
    let expired = LEASE_DURATION.as_secs();
    let killed = format!("another replica leads when the Lease has expired ({expired} s)");
    assert!(page.contains(&killed), "{killed}");
    let runbooks = include_str!("../../../docs/operations/runbooks.md");
    let runbooks = runbooks.split_whitespace().collect::<Vec<_>>().join(" ");
    let replaced = format!("A holder that has exited is replaced after {expired} s.");
    assert!(runbooks.contains(&replaced), "{replaced}");
}

/// The labels say which components the holder runs. A drain of some of them keeps the others.
#[tokio::test(start_paused = true)]
async fn a_lease_names_the_components_of_its_holder() {
    let component = |name: &str| (format!("volume-warden.dev/{name}"), String::new());
    for (replaces, kept) in [(true, false), (false, true)] {
        let leases = Leases::default();
        leases.put("new", "");
        let own = component("own");
        let earlier = json!({"team": "x", "volume-warden.dev/earlier": ""});
        leases.0.lock().get_mut("new").expect("a Lease")["metadata"]["labels"] = earlier;
        let name = LeaseName {
            labels: [own.clone()].into(),
            ..lease_name("new", None)
        };
        let (elector, _) = Elector::new(
            leases.api(),
            name,
            Arc::default(),
            LatestTime::new(Clock::system()),
        );
        let elector = if replaces {
            elector.replacing_labels()
        } else {
            elector
        };
        let running = tokio::spawn(elector.run(CancellationToken::new()));
        tokio::time::sleep(seconds(3)).await;
        running.abort();
        let leases = leases.0.lock();
        let labels = &leases["new"]["metadata"]["labels"];
        assert_eq!(labels[&own.0], "", "{labels}");
        assert_eq!(labels["team"], "x", "{labels}");
        assert_eq!(
            labels.get("volume-warden.dev/earlier").is_some(),
            kept,
            "{labels}"
        );
    }
}
