use super::*;
use crate::objects::{
    Kind, Pod,
    pod::{ClaimSource, PodSpec, PodVolume, PodWire},
};
use futures::{FutureExt as _, stream};
use http_body_util::StreamBody;
use hyper::body::{Bytes, Frame};
use kube::{Client, api::ObjectMeta, client::Body};
use parking_lot::Mutex;
use serde_json::json;
use std::sync::atomic::{AtomicU32, Ordering};
use tokio::{sync::Notify, task::JoinHandle};

fn pod(name: &str, uid: &str, claim: Option<&str>) -> PodWire {
    let source = claim.map(|claim| ClaimSource {
        claim_name: claim.into(),
    });
    let volume = PodVolume {
        name: "v".into(),
        persistent_volume_claim: source,
        ephemeral: None,
    };
    PodWire {
        metadata: ObjectMeta {
            name: Some(name.into()),
            namespace: Some("ns".into()),
            uid: Some(uid.into()),
            ..ObjectMeta::default()
        },
        spec: PodSpec {
            node_name: Some("node".into()),
            volumes: vec![volume],
        },
        ..PodWire::default()
    }
}

fn changes(events: Vec<Event<PodWire>>) -> Vec<String> {
    let feed = Feed::<Pod>::new(Arc::new(Metrics::new()));
    let log = Arc::new(Mutex::new(Vec::new()));
    let lines = log.clone();
    let uid =
        |pod: Option<&Arc<Pod>>| pod.map_or_else(|| "-".to_owned(), |pod| pod.uid.to_string());
    feed.listen(move |change| {
        lines.lock().push(format!(
            "{} {}>{}",
            change.name.name,
            uid(change.old),
            uid(change.new)
        ));
    });
    events.into_iter().for_each(|event| feed.take(event));
    log.lock().clone()
}

#[test]
fn every_change_is_reported_with_the_previous_object() {
    let seen = changes(vec![
        Event::Init,
        Event::InitApply(pod("a", "1", Some("x"))),
        Event::InitDone,
        Event::Apply(pod("a", "2", Some("x"))),
        Event::Delete(pod("a", "2", Some("x"))),
    ]);
    assert_eq!(seen, ["a ->1", "a 1>2", "a 2>-"]);
}

#[test]
fn a_pod_replaced_by_one_without_claims_is_reported_as_deleted() {
    let seen = changes(vec![
        Event::Apply(pod("a", "1", Some("x"))),
        Event::Apply(pod("a", "2", None)),
    ]);
    assert_eq!(seen, ["a ->1", "a 1>-"]);
}

#[test]
fn an_object_missing_from_a_relist_is_reported_as_deleted() {
    let seen = changes(vec![
        Event::Init,
        Event::InitApply(pod("a", "1", Some("x"))),
        Event::InitApply(pod("b", "2", Some("x"))),
        Event::InitDone,
        Event::Init,
        Event::InitApply(pod("b", "2", Some("x"))),
        Event::InitDone,
    ]);
    assert_eq!(seen, ["a ->1", "b ->2", "b 2>2", "a 1>-"]);
}

/// An object that was created and deleted between two lists is reported to no listener.
#[tokio::test]
async fn who_waits_for_an_object_is_notified_after_a_new_list() {
    let feed = Feed::<Pod>::new(Arc::new(Metrics::new()));
    let after = Arc::new(Notify::new());
    feed.progress.after_relist(after.clone());
    let notified = || after.notified().now_or_never().is_some();
    feed.list(vec![]);
    assert!(!notified(), "everything begins after the first list");
    feed.deliver(pod("a", "1", Some("x")), true);
    assert!(!notified(), "a watch reports each change");
    feed.list(vec![]);
    assert!(notified());
}

/// A feed of pods, and for how long its listener of outages learns that changes may have been
/// missed.
fn observed() -> (Arc<Feed<Pod>>, Arc<Mutex<Vec<Duration>>>) {
    let feed = Feed::<Pod>::new(Arc::new(Metrics::new()));
    let missed = Arc::new(Mutex::new(Vec::new()));
    let all = missed.clone();
    feed.progress
        .during_outage(move |time| all.lock().push(time));
    (feed, missed)
}

fn run(feed: &Arc<Feed<Pod>>, client: Client) -> JoinHandle<()> {
    let activity = WatchActivity::observed(Kind::Pod, &feed.metrics);
    let api = Api::all(activity.client(&client));
    tokio::spawn(feed.run(api, activity))
}

fn answer(code: u16, body: &serde_json::Value) -> http::Response<Body> {
    let body = Body::from(body.to_string().into_bytes());
    let response = http::Response::builder().status(code).body(body);
    response.expect("valid")
}

/// An object may be created and deleted while a kind can neither be watched nor listed.
#[tokio::test(start_paused = true)]
async fn a_listener_learns_for_how_long_changes_may_have_been_missed() {
    let began = Instant::now();
    let service = tower::service_fn(move |request: http::Request<Body>| async move {
        let watch = request.uri().query().unwrap_or_default().contains("watch=");
        let second = began.elapsed().as_secs_f64();
        if watch && second >= 100.0 {
            return std::future::pending().await;
        }
        let forbidden = (10.0..100.0).contains(&second);
        let (code, body) = match (forbidden, watch) {
            (true, _) => (
                403,
                json!({"kind": "Status", "status": "Failure", "code": 403}),
            ),
            (false, true) => (
                410,
                json!({"kind": "Status", "status": "Failure", "code": 410}),
            ),
            (false, false) => (
                200,
                json!({"kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": "7"}, "items": []}),
            ),
        };
        Ok::<_, std::io::Error>(answer(code, &body))
    });
    let (feed, missed) = observed();
    let running = run(&feed, Client::new(service, "default"));
    tokio::time::sleep(Duration::from_secs(200)).await;
    running.abort();
    let missed = missed.lock();
    let (last, longest) = (missed.last(), missed.iter().max());
    assert_eq!(last, longest, "the LIST ends the outage: {missed:?}");
    assert!(longest >= Some(&Duration::from_secs(85)), "{missed:?}");
}

/// A load balancer may drop what an API server sends, and the next one may not know the
/// resourceVersion, which it says in a watch that has begun.
#[tokio::test(start_paused = true)]
async fn a_silent_watch_that_cannot_go_on_counts_from_its_last_event() {
    const DIES_AT: u64 = 100;
    for (silent, expected) in [(true, 205), (false, 0)] {
        let watches = AtomicU32::new(0);
        let service = tower::service_fn(move |request: http::Request<Body>| {
            let watch = request.uri().query().unwrap_or_default().contains("watch=");
            let number = if watch {
                watches.fetch_add(1, Ordering::Relaxed)
            } else {
                u32::MAX
            };
            async move {
                let last_event = tokio::time::sleep(Duration::from_secs(DIES_AT));
                let bookmark = json!({"type": "BOOKMARK", "object": {"kind": "Pod", "apiVersion": "v1",
                    "metadata": {"resourceVersion": "7"}}});
                let gone = json!({"type": "ERROR", "object": {"kind": "Status", "status": "Failure", "code": 410}});
                let list = json!({"kind": "PodList", "apiVersion": "v1", "items": [],
                    "metadata": {"resourceVersion": "7"}});
                let frame = |value: serde_json::Value| {
                    Ok::<_, std::io::Error>(Frame::data(Bytes::from(format!("{value}\n"))))
                };
                let frames = match number {
                    0 => {
                        let sent = stream::once(async move {
                            last_event.await;
                            frame(bookmark)
                        });
                        if silent {
                            sent.chain(stream::pending()).boxed()
                        } else {
                            sent.boxed()
                        }
                    }
                    1 => stream::iter([frame(gone)]).boxed(),
                    u32::MAX => stream::iter([frame(list)]).boxed(),
                    _ => stream::pending().boxed(),
                };
                Ok::<_, std::io::Error>(http::Response::new(StreamBody::new(frames)))
            }
        });
        let (feed, missed) = observed();
        let running = run(&feed, Client::new(service, "default"));
        tokio::time::sleep(Duration::from_secs(DIES_AT + 300)).await;
        running.abort();
        let missed = missed.lock();
        let longest = missed.iter().max().map(Duration::as_secs);
        assert_eq!(longest, Some(expected), "silent: {silent}: {missed:?}");
    }
}

/// An overloaded API server may answer a LIST with an error after minutes.
#[tokio::test(start_paused = true)]
async fn a_list_that_fails_after_minutes_counts_from_its_beginning() {
    let began = Instant::now();
    let service = tower::service_fn(move |_: http::Request<Body>| async move {
        let (code, delay) = if began.elapsed() < Duration::from_secs(1) {
            (504, 120)
        } else {
            (200, 1)
        };
        tokio::time::sleep(Duration::from_secs(delay)).await;
        let list = json!({"kind": "PodList", "apiVersion": "v1", "code": code, "items": [],
            "metadata": {"resourceVersion": "7"}});
        Ok::<_, std::io::Error>(answer(code, &list))
    });
    let (feed, missed) = observed();
    let running = run(&feed, Client::new(service, "default"));
    feed.synced().await;
    running.abort();
    let missed = missed.lock();
    let seconds: Vec<_> = missed.iter().map(Duration::as_secs).collect();
    // The LIST that succeeded began then.
    assert_eq!(seconds, [120, 120]);
}

/// Runs a feed for `time` against an API server whose LISTs have no pods and whose watches begin
/// and then send nothing. Returns at which second each LIST and each watch began.
async fn silent(time: Duration) -> (Vec<u64>, Vec<u64>) {
    let (began, seen) = (Instant::now(), Arc::new(Mutex::new((vec![], vec![]))));
    let log = seen.clone();
    let service = tower::service_fn(move |request: http::Request<Body>| {
        let watch = request.uri().query().unwrap_or_default().contains("watch=");
        let mut log = log.lock();
        let (lists, watches) = &mut *log;
        let begun = if watch { watches } else { lists };
        begun.push(began.elapsed().as_secs());
        let list = json!({"kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": "7"}, "items": []});
        let list = Ok::<_, std::io::Error>(Frame::data(Bytes::from(list.to_string())));
        let frames = if watch {
            stream::pending().boxed()
        } else {
            stream::iter([list]).boxed()
        };
        async move { Ok::<_, std::io::Error>(http::Response::new(StreamBody::new(frames))) }
    });
    let feed = Feed::<Pod>::new(Arc::new(Metrics::new()));
    let running = run(&feed, Client::new(service, "default"));
    tokio::time::sleep(time).await;
    running.abort();
    seen.lock().clone()
}

/// A page, with single spaces between its words.
fn words(page: &str) -> String {
    page.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A load balancer or a dead connection may hold back all that the API server sends.
#[tokio::test(start_paused = true)]
async fn a_silent_watch_is_restarted_when_the_pages_say_so() {
    let (lists, watches) = silent(Duration::from_secs(420)).await;
    assert_eq!((lists, &*watches), (vec![0], &[0, 205, 410][..]));
    let failures = words(include_str!("../../../docs/operations/failures.md"));
    let runbooks = words(include_str!("../../../docs/operations/runbooks.md"));
    let restarted = watches[1];
    for (page, part) in [
        (
            &failures,
            format!("the watch is restarted within {restarted} s |"),
        ),
        (
            &runbooks,
            format!("A watch that is silent for {restarted} s is restarted"),
        ),
        (
            &runbooks,
            format!("balancer in front of it (longer than {WATCH_SECONDS} s)"),
        ),
    ] {
        assert!(page.contains(&part), "{part}");
    }
}

/// The watch of a restored etcd reports no change that the restoration has undone.
#[tokio::test(start_paused = true)]
async fn every_kind_is_listed_again_when_the_page_says_so() {
    const SIX_HOURS: u64 = 6 * 3600;
    let (lists, _) = silent(Duration::from_secs(SIX_HOURS + 1)).await;
    assert_eq!(lists, [0, SIX_HOURS]);
    let page = words(include_str!("../../../docs/operations/failures.md"));
    assert!(page.contains("every kind is listed again every six hours"));
}

/// Runs a feed against an API server that answers LISTs with no pods, and watches with one status
/// after another; when there are none left, a watch stays open. Returns the number of LISTs
/// and of watches until then.
async fn requests(statuses: &[(u16, &str)]) -> (usize, usize) {
    let queries = Arc::new(Mutex::new(Vec::<String>::new()));
    let (log, expected) = (queries.clone(), statuses.len() + 1);
    let statuses = statuses.iter().map(|&(code, cause)| {
        let details = json!({"causes": [{"reason": cause, "message": "", "field": ""}]});
        let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": "", "message": "", "details": details});
        (code, status)
    });
    let mut statuses = statuses.collect::<Vec<_>>().into_iter();
    let service = tower::service_fn(move |request: http::Request<Body>| {
        let query = request.uri().query().unwrap_or_default().to_owned();
        let watch = query.contains("watch=");
        let answer = if watch {
            statuses.next()
        } else {
            Some((
                200,
                json!({"kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": "7"}, "items": []}),
            ))
        };
        assert!(!watch || query.contains("resourceVersion=7"), "{query}");
        log.lock().push(query);
        async move {
            let Some((code, body)) = answer else {
                return std::future::pending().await;
            };
            let body = Body::from(body.to_string().into_bytes());
            let response = http::Response::builder().status(code).body(body);
            Ok::<_, std::io::Error>(response.expect("valid"))
        }
    });
    let feed = Feed::<Pod>::new(Arc::new(Metrics::new()));
    let running = run(&feed, Client::new(service, "default"));
    let counts = || {
        let queries = queries.lock();
        let watches = queries.iter().filter(|query| query.contains("watch="));
        let watches = watches.count();
        (queries.len() - watches, watches)
    };
    while counts().1 < expected {
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    running.abort();
    counts()
}

#[tokio::test(start_paused = true)]
async fn an_api_server_that_was_away_is_not_listed_again() {
    assert_eq!(requests(&[(503, ""); 25]).await, (1, 26));
    assert_eq!(requests(&[(404, ""), (429, ""), (500, "")]).await, (1, 4));
}

#[tokio::test(start_paused = true)]
async fn a_resource_version_that_the_api_server_does_not_know_is_replaced_by_a_list() {
    assert_eq!(requests(&[(410, "")]).await, (2, 2));
    assert_eq!(requests(&[(400, "")]).await, (2, 2));
    assert_eq!(requests(&[(504, "ResourceVersionTooLarge")]).await, (2, 2));
    assert_eq!(requests(&[(504, "")]).await, (1, 2));
}
