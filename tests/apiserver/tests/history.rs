//! Watches and pages after a compaction of the history, which a conformance test cannot cause.

use futures::FutureExt;
use http::Request;
use serde_json::{Value, json};
use std::sync::Arc;
use time::OffsetDateTime;
use volume_warden_apiserver_model::{ApiServer, Body, Settings, User, Version};

fn send(server: &ApiServer, method: &str, uri: &str, body: &Value) -> (u16, Body) {
    let user = User {
        name: "alice".into(),
        groups: Vec::new(),
    };
    let request = Request::builder().method(method).uri(uri);
    let request = request.body(body.to_string().into()).expect("valid");
    let response = server.handle(&user, request).now_or_never();
    let response = response.expect("nothing waits");
    (response.status().as_u16(), response.into_body())
}

fn read(server: &ApiServer, uri: &str) -> (u16, Value) {
    let (status, Body::Whole(Some(bytes))) = send(server, "GET", uri, &Value::Null) else {
        unreachable!("a GET without watch is answered as a whole")
    };
    (status, serde_json::from_slice(&bytes).expect("JSON"))
}

fn events(body: &mut Body) -> Vec<Value> {
    let Body::Watch(events) = body else {
        unreachable!("a watch is not answered as a whole")
    };
    let lines = std::iter::from_fn(|| events.try_recv().ok());
    lines
        .map(|line| serde_json::from_slice(&line).expect("JSON"))
        .collect()
}

/// An API server with three volumes.
fn server() -> ApiServer {
    let server = ApiServer::new(Settings {
        version: Version::V1_34,
        seed: 1,
        clock: Arc::new(|| OffsetDateTime::UNIX_EPOCH),
        longest_page: 0,
        in_tree_protection: false,
    });
    for name in ["a", "b", "c"] {
        let volume = json!({"metadata": {"name": name}, "spec": {}});
        let (status, _) = send(&server, "POST", VOLUMES, &volume);
        assert_eq!(status, 201);
    }
    server
}

const VOLUMES: &str = "/api/v1/persistentvolumes";

#[test]
fn a_watch_from_before_the_compaction_gets_the_error_410() {
    let server = server();
    let old = server.revision() - 2;
    let watch = |since| {
        send(
            &server,
            "GET",
            &format!("{VOLUMES}?watch=true&resourceVersion={since}"),
            &Value::Null,
        )
        .1
    };
    let types = |events: &[Value]| {
        events
            .iter()
            .map(|event| event["type"].clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(types(&events(&mut watch(old))), ["ADDED", "ADDED"]);
    server.compact();
    let refused = events(&mut watch(old));
    assert_eq!(types(&refused), ["ERROR"]);
    assert_eq!(
        (
            &refused[0]["object"]["code"],
            &refused[0]["object"]["reason"]
        ),
        (&json!(410), &json!("Expired"))
    );
    assert_eq!(events(&mut watch(server.revision())), Vec::<Value>::new());
}

#[test]
fn a_list_in_pages_shows_one_state_until_the_history_is_forgotten() {
    let server = server();
    let (_, first) = read(&server, &format!("{VOLUMES}?limit=1"));
    assert_eq!(first["metadata"]["remainingItemCount"], 2);
    let token = first["metadata"]["continue"].as_str().expect("a token");
    let next = format!("{VOLUMES}?limit=5&continue={token}");
    assert_eq!(
        send(&server, "DELETE", &format!("{VOLUMES}/b"), &json!({})).0,
        200
    );
    let (_, second) = read(&server, &next);
    let names: Vec<_> = second["items"]
        .as_array()
        .expect("items")
        .iter()
        .map(|item| item["metadata"]["name"].clone())
        .collect();
    assert_eq!(names, ["b", "c"]);
    server.compact();
    let (status, refused) = read(&server, &next);
    assert_eq!((status, &refused["reason"]), (410, &json!("Expired")));
}

/// After a compaction, the pages after the first one would show another state.
#[test]
fn a_list_in_pages_ends_if_its_own_revision_is_forgotten() {
    let server = server();
    let (_, first) = read(&server, &format!("{VOLUMES}?limit=1"));
    let token = first["metadata"]["continue"].as_str().expect("a token");
    server.compact();
    send(&server, "DELETE", &format!("{VOLUMES}/b"), &json!({}));
    let (status, _) = read(&server, &format!("{VOLUMES}?limit=5&continue={token}"));
    assert_eq!(status, 410);
}

#[test]
fn a_bookmark_follows_all_events_up_to_its_revision() {
    let server = server();
    let watch = |parameters: &str| {
        let uri = format!("{VOLUMES}?watch=true{parameters}");
        send(&server, "GET", &uri, &Value::Null).1
    };
    let (mut with, mut without) = (watch("&allowWatchBookmarks=true"), watch(""));
    for number in 0..2_000 {
        let volume = json!({"metadata": {"name": format!("v-{number}")}, "spec": {}});
        assert_eq!(send(&server, "POST", VOLUMES, &volume).0, 201);
    }
    let revision = |event: &Value| {
        let revision = event["object"]["metadata"]["resourceVersion"].as_str();
        revision
            .expect("a revision")
            .parse::<u64>()
            .expect("a number")
    };
    let all = events(&mut with);
    let ordered = all
        .windows(2)
        .all(|two| revision(&two[0]) <= revision(&two[1]));
    assert!(ordered, "a bookmark is ahead of an event");
    let (bookmarks, others): (Vec<_>, Vec<_>) = all
        .into_iter()
        .partition(|event| event["type"] == "BOOKMARK");
    assert!((2..50).contains(&bookmarks.len()), "{}", bookmarks.len());
    assert_eq!(bookmarks[0]["object"]["kind"], "PersistentVolume");
    assert_eq!(events(&mut without), others);
}

#[test]
fn a_restart_ends_all_watches() {
    let server = server();
    let (_, mut body) = send(
        &server,
        "GET",
        &format!("{VOLUMES}?watch=true"),
        &Value::Null,
    );
    assert_eq!(events(&mut body).len(), 3);
    server.end_watches();
    let Body::Watch(events) = &mut body else {
        unreachable!("a watch is not answered as a whole")
    };
    assert_eq!(events.recv().now_or_never(), Some(None));
}
