use super::*;
use crate::cluster::{
    test_server::{answering, answering_after},
    write::event_content::NOTE_LIMIT,
};
use futures::future::join_all;
use parking_lot::Mutex;
use serde_json::json;

/// Events, each with the namespace to which it was written.
type Written = Arc<Mutex<Vec<(String, serde_json::Value)>>>;

/// An API server that takes 10 ms for each Event, and the Events in order.
fn api() -> (Client, Written) {
    let written = Written::default();
    let log = written.clone();
    let client = answering_after(Duration::from_millis(10), move |head, event| {
        let namespace = head.uri.path().split('/').nth(5).expect("a namespace");
        log.lock().push((namespace.to_owned(), event));
        (201, r#"{"metadata": {"name": "e"}, "eventTime": null}"#)
    });
    (client, written)
}

fn about(namespace: &str) -> ObjectReference {
    ObjectReference {
        kind: Some("Pod".to_owned()),
        name: Some("p".to_owned()),
        namespace: Some(namespace.to_owned()),
        ..ObjectReference::default()
    }
}

fn event_content(note: &str) -> EventContent {
    EventContent {
        reason: "Reason",
        action: "Action",
        warning: true,
        note: note.to_owned(),
        related: None,
    }
}

#[tokio::test(start_paused = true)]
async fn a_note_is_one_line_and_bounded() {
    let (client, written) = api();
    let events = Events::new(client);
    for note in ["a\n\u{1b}[2Jb", &"\u{7}".repeat(NOTE_LIMIT)] {
        let published = events.publish(&about("ns"), &event_content(note)).await;
        assert_eq!(published, Publication::Published);
    }
    let written = written.lock();
    let [(_, short), (_, long)] = &written[..] else {
        unreachable!("two Events");
    };
    assert_eq!(short["note"], "a\\n\\u{1b}[2Jb");
    assert_eq!(long["note"].as_str().map(str::len), Some(NOTE_LIMIT));
}

#[tokio::test(start_paused = true)]
async fn an_event_about_an_object_with_a_long_name_has_a_valid_name() {
    let (client, written) = api();
    let events = Arc::new(Events::new(client));
    let regarding = ObjectReference {
        name: Some("n".repeat(253)),
        ..about("ns")
    };
    events.count(regarding.clone(), event_content("a"));
    events.counted().await;
    let published = events.publish(&regarding, &event_content("b")).await;
    assert_eq!(published, Publication::Published);
    let written = written.lock();
    assert_eq!(written.len(), 2);
    for (_, event) in written.iter() {
        let name = event["metadata"]["name"].as_str().expect("a name");
        assert!(name.len() <= 253, "{name}");
    }
}

/// What becomes of an Event whose creation is answered with this status.
async fn answered_with(code: u16, reason: &str, cause: &str) -> Publication {
    let status = json!({
        "kind": "Status", "code": code, "reason": reason, "message": "no",
        "details": {"causes": [{"reason": cause}]},
    });
    let events = Events::new(answering(move |_, _| (code, status.clone())));
    events.publish_once(&about("ns"), &event_content("a")).await
}

/// An Event that exists counts as published; any other conflict does not.
#[tokio::test(start_paused = true)]
async fn an_event_that_another_replica_published_exists() {
    let exists = answered_with(409, "AlreadyExists", "").await;
    assert_eq!(exists, Publication::Published);
    let conflict = answered_with(409, "Conflict", "").await;
    assert_eq!(conflict, Publication::Failed);
}

/// The first answer is lost. The API server may have stored the Event.
#[tokio::test(start_paused = true)]
async fn an_event_whose_answer_is_lost_is_neither_lost_nor_repeated() {
    for stored in [true, false] {
        let names = Arc::new(Mutex::new(Vec::new()));
        let sent = names.clone();
        let exists = json!({"kind": "Status", "code": 409, "reason": "AlreadyExists"});
        let client = answering(move |_, event| {
            let mut sent = sent.lock();
            sent.push(event["metadata"]["name"].clone());
            match sent.len() {
                1 => (504, json!({"kind": "Status", "code": 504})),
                _ if stored => (409, exists.clone()),
                _ => (201, json!({"metadata": {"name": "e"}, "eventTime": null})),
            }
        });
        let events = Events::new(client);
        let published = events.publish(&about("ns"), &event_content("a")).await;
        assert_eq!(published, Publication::Published);
        let names = names.lock();
        assert_eq!((names.len(), &names[0]), (2, &names[1]));
    }
}

#[tokio::test(start_paused = true)]
async fn the_attempts_to_create_an_event_are_limited() {
    for (code, expected) in [(503, ATTEMPTS), (429, ATTEMPTS), (403, 1)] {
        let attempts = Arc::new(Mutex::new(0));
        let counted = attempts.clone();
        let client = answering(move |_, _| {
            *counted.lock() += 1;
            (code, json!({"kind": "Status", "code": code}))
        });
        let events = Events::new(client);
        let published = events.publish(&about("ns"), &event_content("a")).await;
        assert_eq!(published, Publication::Failed);
        assert_eq!(*attempts.lock(), expected);
    }
}

/// Events that wait for their next attempt hold no permit.
#[tokio::test(start_paused = true)]
async fn failed_attempts_do_not_delay_the_events_of_other_namespaces() {
    let client = answering(|head, _| {
        if head.uri.path().contains("/failing/") {
            (503, json!({"kind": "Status", "code": 503}))
        } else {
            (201, json!({"metadata": {"name": "e"}, "eventTime": null}))
        }
    });
    let (events, event_content) = (Events::new(client), event_content("a note"));
    let began = tokio::time::Instant::now();
    let (failing, other) = (about("failing"), about("other"));
    let failing = [(); IN_FLIGHT].map(|()| events.publish(&failing, &event_content));
    let other = async {
        let published = events.publish(&other, &event_content).await;
        (published, began.elapsed())
    };
    let (_, other) = tokio::join!(join_all(failing), other);
    assert_eq!(other, (Publication::Published, Duration::ZERO));
}

#[tokio::test(start_paused = true)]
async fn no_event_can_be_published_in_a_namespace_that_is_being_deleted() {
    let terminating = answered_with(403, "Forbidden", "NamespaceTerminating").await;
    assert_eq!(terminating, Publication::Impossible);
    let forbidden = answered_with(403, "Forbidden", "").await;
    assert_eq!(forbidden, Publication::Failed);
}

#[tokio::test(start_paused = true)]
async fn thousands_of_events_of_one_namespace_neither_wait_nor_delay_others() {
    let (client, written) = api();
    let events = Events::new(client);
    let event_content = event_content("a note");
    let many = std::iter::repeat_n("many", 5000).chain(["few"]);
    let published =
        many.map(async |namespace| events.publish(&about(namespace), &event_content).await);
    let published = join_all(published).await;
    let is_kept = |publication: &&Publication| **publication == Publication::Published;
    let kept = published.iter().filter(is_kept).count();
    assert_eq!(
        kept,
        IN_FLIGHT + WAITING + 1,
        "the others are reported lost"
    );
    tokio::time::advance(Duration::from_secs(60)).await;
    let left_out = (published.len() - kept - 1) as u64;
    assert_eq!(events.dropped.check(), Some(left_out), "one was logged");
    let written = written.lock();
    assert_eq!(written.len(), kept);
    let place = written.iter().position(|(namespace, _)| namespace == "few");
    assert!(
        place.is_some_and(|place| place < 3 * IN_FLIGHT),
        "{place:?}"
    );
}
