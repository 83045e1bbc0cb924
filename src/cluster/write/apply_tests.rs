use super::*;
use crate::{
    awaited::Awaited,
    cluster::{
        Basis, Caller, Creation, Elector, Excluded, Feeds, OnRefusal, Proof,
        test_server::answering_after,
    },
    objects::{Kind, ObjectName, patch::remove},
};
use futures::future::join_all;
use kube::client::Body;
use parking_lot::Mutex;
use serde_json::json;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::time::{advance, sleep};

const CALL: Duration = Duration::from_millis(100);

/// The writes that the API server received, in their order.
type Sent = Arc<Mutex<Vec<String>>>;
/// Until when the writer leads.
type Lead = Arc<Awaited<Option<Instant>>>;

/// An API server that accepts every write after [`CALL`], and records their paths and bodies.
struct Server {
    apply: Apply,
    sent: Sent,
    _lead: Lead,
}

impl Server {
    fn new(max_in_flight: usize) -> Self {
        let sent = Arc::new(Mutex::new(Vec::new()));
        let log = sent.clone();
        let client = answering_after(CALL, move |head, body| {
            log.lock().push(format!("{} {body}", head.uri));
            let written = json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": {}});
            (200, written)
        });
        let (lead, leadership) = Elector::for_test();
        lead.replace(Some(Instant::now() + Duration::from_secs(600)));
        let metrics = Arc::new(Metrics::new());
        Self {
            apply: Apply::new(client, leadership, max_in_flight, false, metrics),
            sent,
            _lead: lead,
        }
    }

    async fn perform(&self, claim: &str, action: Action) -> &'static str {
        let name = ObjectName::new("ns", claim);
        let target = Target {
            resource_version: Some("1".into()),
            ..Target::new(Kind::PersistentVolumeClaim, &name, "uid")
        };
        let applied = self.apply.perform("test", &target, action, "Test").await;
        applied.label()
    }

    /// Creates a claim for a reconciler that waits until this instant.
    async fn create(&self, until: Instant) -> &'static str {
        let name = ObjectName::new("ns", "created");
        let creation = Creation {
            kind: Kind::PersistentVolumeClaim,
            name: &name,
            manifest: &json!({}),
        };
        let caller = Caller::Reconciler(until);
        let created = self.apply.create("test", creation, caller, "Test").await;
        created.label()
    }

    /// Returns the request for this claim, and the number of requests before it.
    fn sent(&self, claim: &str) -> Option<(usize, String)> {
        let path = format!("/persistentvolumeclaims/{claim}?");
        let sent = self.sent.lock();
        let place = sent.iter().position(|each| each.contains(&path))?;
        Some((place, sent[place].clone()))
    }

    /// Runs `waiting` behind a hundred finalizer removals, which take ten seconds one after
    /// another.
    async fn behind_bulk<T>(&self, waiting: impl Future<Output = T>) -> T {
        let bulk = (0..100).map(|index| {
            let claim = format!("bulk{index}");
            async move {
                let action = Action::remove_finalizer("f", Basis::Object);
                self.perform(&claim, action).await
            }
        });
        let late = async {
            sleep(CALL).await;
            waiting.await
        };
        let (bulk, waited) = tokio::join!(join_all(bulk), late);
        assert!(bulk.iter().all(|outcome| *outcome == "Done"));
        waited
    }
}

fn proof() -> Proof {
    Proof::of_test(Duration::from_secs(2))
}

fn own(basis: Basis) -> Action {
    Action::own(Vec::new(), basis)
}

fn disown(basis: Basis) -> Action {
    Action::disown(vec![remove(&["fresh"])], vec![remove(&["late"])], basis)
}

fn release() -> Action {
    let refusal = OnRefusal::new("FailedRelease");
    Action::patch("Release", Lane::Release, Vec::new(), Basis::Object, refusal)
}

/// Writes that keep data are sent before bulk writes that were requested earlier.
#[tokio::test(start_paused = true)]
async fn bulk_delays_no_other_lane() {
    let server = Server::new(1);
    let writes = [
        ("kept", disown(Basis::Object)),
        ("protected", Action::add_finalizer("f")),
        ("owned", own(Basis::Object)),
        ("released", release()),
    ];
    let all = writes.map(|(claim, action)| server.perform(claim, action));
    let outcomes = server.behind_bulk(join_all(all)).await;
    assert_eq!(outcomes, ["Done"; 4]);
    for (claim, most) in [("kept", 2), ("owned", 3), ("released", 4), ("protected", 6)] {
        let (before, _) = server.sent(claim).expect("sent");
        assert!(before <= most, "{claim} was sent after {before} others");
    }
}

/// A deletion whose decision is too old is not sent, and the caller does not wait any longer.
#[tokio::test(start_paused = true)]
async fn a_decision_does_not_wait_longer_than_it_is_fresh() {
    let server = Server::new(1);
    let began = Instant::now();
    let (outcome, waited) = server
        .behind_bulk(async {
            let outcome = server.perform("deleted", Action::delete(proof())).await;
            (outcome, began.elapsed())
        })
        .await;
    assert_eq!(outcome, "Stale");
    assert!(waited < Duration::from_millis(2200), "{waited:?}");
    assert!(server.sent("deleted").is_none(), "nothing was sent");
}

#[tokio::test(start_paused = true)]
async fn an_old_decision_is_not_carried_out() {
    let server = Server::new(1);
    let (proof, owned) = (proof(), own(Basis::Proof(proof())));
    let until = Instant::now() + Duration::from_secs(2);
    assert_eq!(server.create(until).await, "Done");
    assert_eq!(server.perform("fresh", Action::delete(proof)).await, "Done");
    advance(Duration::from_secs(3)).await;
    assert_eq!(server.create(until).await, "Stale");
    assert_eq!(server.perform("old", Action::delete(proof)).await, "Stale");
    assert_eq!(server.perform("old", owned).await, "Stale");
    assert!(server.sent("old").is_none(), "nothing was sent");
}

/// The watch shows meanwhile that the decision was wrong, for example by a new pod.
#[tokio::test(start_paused = true)]
async fn a_decision_that_a_watch_refutes_while_it_waits_is_not_carried_out() {
    let server = Server::new(1);
    let name = ObjectName::new("ns", "released");
    let target = Target::new(Kind::PersistentVolumeClaim, &name, "uid");
    for (refuted, outcome) in [(true, "Stale"), (false, "Done")] {
        let holds = AtomicBool::new(true);
        let still_holds = || holds.load(Ordering::SeqCst);
        let remove = Action::remove_finalizer("f", Basis::Proof(Proof::of_test(CALL * 99)));
        let permit = server.apply.lanes.permit(Lane::Bulk, &name.namespace).await;
        let refute = async {
            sleep(CALL).await;
            holds.store(!refuted, Ordering::SeqCst);
            drop(permit);
        };
        let applied = server
            .apply
            .perform_if("test", &target, remove, "Test", &still_holds);
        let (applied, ()) = tokio::join!(applied, refute);
        assert_eq!(applied.label(), outcome);
        assert_eq!(server.sent("released").is_some(), !refuted);
    }
}

/// A late write that keeps data is sent, but only the part of it that removes something.
#[tokio::test(start_paused = true)]
async fn an_old_decision_to_keep_something_is_carried_out() {
    let server = Server::new(1);
    let disown = disown(Basis::Proof(proof()));
    assert_eq!(server.perform("early", disown.clone()).await, "Done");
    advance(Duration::from_secs(3)).await;
    assert_eq!(server.perform("late", disown).await, "Done");
    for (claim, path) in [("early", "/metadata/fresh"), ("late", "/metadata/late")] {
        let (_, body) = server.sent(claim).expect("sent");
        assert!(body.contains(path), "{body}");
        assert!(body.contains("resourceVersion"), "{body}");
    }
}

/// A writer whose API server refuses all patches, and accepts an Event only after three seconds.
fn refusing(code: u16, text: &str) -> (Arc<Apply>, Sent, Lead) {
    let text = text.as_bytes().to_vec();
    let events = Arc::new(Mutex::new(Vec::new()));
    let log = events.clone();
    let service = tower::service_fn(move |request: http::Request<Body>| {
        let (log, text) = (log.clone(), text.clone());
        async move {
            let (head, body) = request.into_parts();
            let body = body.collect_bytes().await.unwrap_or_default();
            let (code, answer) = if head.uri.path().contains("/events") {
                sleep(Duration::from_secs(3)).await;
                log.lock().push(head.uri.to_string());
                (201, body.to_vec())
            } else {
                (code, text)
            };
            let response = http::Response::builder()
                .status(code)
                .body(Body::from(answer));
            response.map_err(std::io::Error::other)
        }
    });
    let (lead, leadership) = Elector::for_test();
    lead.replace(Some(Instant::now() + Duration::from_secs(600)));
    let client = Client::new(service, "default");
    let apply = Apply::new(client, leadership, 1, false, Arc::new(Metrics::new()));
    (Arc::new(apply), events, lead)
}

async fn remove_a_finalizer(apply: &Arc<Apply>) -> Applied {
    let name = ObjectName::new("ns", "claim");
    let target = Target {
        resource_version: Some("1".into()),
        ..Target::new(Kind::PersistentVolumeClaim, &name, "uid")
    };
    let action = Action::remove_finalizer("f", Basis::Object);
    apply.perform("test", &target, action, "Test").await
}

/// A load balancer between Volume Warden and the API server has no backend.
#[tokio::test(start_paused = true)]
async fn the_answer_of_a_proxy_is_no_refusal() {
    let (apply, events, _lead) = refusing(404, "404 page not found");
    let applied = remove_a_finalizer(&apply).await;
    assert_eq!(applied.label(), "Failed");
    apply.reported().await;
    assert_eq!(*events.lock(), [] as [&str; 0]);
}

/// The reconcile that was refused holds its key, and a place among a thousand, until `perform`
/// returns.
#[tokio::test(start_paused = true)]
async fn a_refused_write_does_not_wait_for_its_event() {
    let status = json!({"kind": "Status", "code": 403, "reason": "Forbidden", "message": "no"});
    let (apply, events, _lead) = refusing(403, &status.to_string());
    let began = Instant::now();
    let applied = remove_a_finalizer(&apply).await;
    assert_eq!(
        (applied.label(), began.elapsed()),
        ("Failed", Duration::ZERO)
    );
    assert_eq!(events.lock().len(), 0);
    apply.reported().await;
    assert_eq!(events.lock().len(), 1, "the Event follows");
}

/// Returns every action, and what of it is sent for a claim in a namespace that has opted out.
#[tokio::test(start_paused = true)]
async fn an_excluded_namespace_loses_what_it_has_and_gets_nothing() {
    let mut server = Server::new(8);
    let feeds = Feeds::new(&Arc::new(Metrics::new()));
    let label = json!({"volume-warden.dev/exclude": "true"});
    let out = json!({"metadata": {"name": "ns", "uid": "1", "labels": label}});
    let out = serde_json::from_value(out).expect("a namespace");
    feeds.namespaces.list(vec![out]);
    server.apply = server.apply.excluding(Excluded::by_label(&feeds, None));
    for (claim, action, outcome, sent) in [
        ("added", Action::add_finalizer("f"), "Withheld", None),
        ("owned", own(Basis::Object), "Withheld", None),
        ("deleted", Action::delete(proof()), "Withheld", None),
        ("released", release(), "Withheld", None),
        (
            "removed",
            Action::remove_finalizer("f", Basis::Object),
            "Done",
            Some("resourceVersion"),
        ),
        ("disowned", disown(Basis::Object), "Done", Some("late")),
    ] {
        assert_eq!(server.perform(claim, action).await, outcome, "{claim}");
        let body = server.sent(claim).map(|(_, body)| body);
        let found = body
            .as_deref()
            .map(|body| sent.is_some_and(|part| body.contains(part)));
        assert_eq!(found, sent.map(|_| true), "{claim}: {body:?}");
    }
    let name = ObjectName::new("ns", "created");
    let creation = Creation {
        kind: Kind::PersistentVolumeClaim,
        name: &name,
        manifest: &json!({}),
    };
    for caller in [
        Caller::Reconciler(Instant::now() + CALL * 9),
        Caller::Review {
            until: Instant::now() + CALL * 9,
            retry_until: Instant::now() + CALL * 9,
        },
    ] {
        let created = server.apply.create("test", creation, caller, "Test").await;
        assert_eq!(created.label(), "Withheld", "{caller:?}");
    }
    // In a namespace that has not opted out, every action is sent.
    feeds.namespaces.list(Vec::new());
    assert_eq!(
        server.perform("added", Action::add_finalizer("f")).await,
        "Done"
    );
}
