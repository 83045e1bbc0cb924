//! A cluster with faults.

use crate::support::{SHORT, Scene, Secrets, eventually, options};
use volume_warden::backend::{Backend, Deletion, Outcome, Sentence, StorageOs};
use volume_warden_storageos::{Closed, Endpoint, Fault, Serving};

async fn fails_once(scene: &Scene, client: &StorageOs, fault: Fault, expected: Outcome) {
    let namespace = scene.listed("one").await;
    scene.fake.fault(Endpoint::Delete, fault, 1);
    let failure = client.delete(&namespace).await.expect_err("fails");
    assert_eq!(failure.outcome(), expected, "{failure}");
    let calls = || scene.fake.calls(Endpoint::Delete);
    // The server may still be processing the abandoned request.
    eventually("the request has arrived", async || calls() > 0).await;
    assert_eq!(calls(), 1, "it is not retried");
}

async fn deletion_fails(fault: Fault, expected: Outcome) -> Scene {
    let scene = Scene::new();
    fails_once(&scene, &scene.client, fault, expected).await;
    // The client is still usable.
    let again = scene.client.list().await.expect("lists");
    assert_eq!(again.namespaces.len(), scene.fake.names().len());
    scene
}

#[tokio::test]
async fn ns_10_a_connection_that_breaks_in_a_deletion_is_an_error() {
    let scene = deletion_fails(Fault::CutBefore, Outcome::Transport).await;
    assert_eq!(scene.fake.names(), ["one"]);
    let scene = deletion_fails(Fault::CutAfter, Outcome::Transport).await;
    assert!(scene.fake.names().is_empty(), "it had been carried out");
}

#[tokio::test]
async fn ns_10_a_deletion_without_an_answer_is_late() {
    let scene = Scene::new();
    let hurried = scene.hurried().await;
    fails_once(&scene, &hurried, Fault::Silence, Outcome::Timeout).await;
    eventually("the client is usable again", async || {
        let again = hurried.list().await;
        again.is_ok_and(|again| again.namespaces.len() == scene.fake.names().len())
    })
    .await;
}

#[tokio::test]
async fn each_call_has_its_own_time_limit() {
    let scene = Scene::with(|options| options.call_limit = SHORT);
    scene.fake.fault(Endpoint::List, Fault::Silence, 1);
    let failure = scene.list_fails().await;
    assert_eq!(failure.outcome(), Outcome::Timeout);
    assert_eq!(failure.to_string(), "StorageOS did not answer within 1 s");
}

#[tokio::test]
async fn a_login_without_an_answer_is_late_too() {
    let scene = Scene::with(|options| options.request_limit = SHORT);
    scene.fake.fault(Endpoint::Login, Fault::Silence, 1);
    assert_eq!(scene.list_fails().await.outcome(), Outcome::Timeout);
    eventually("a list succeeds", async || {
        scene.client.list().await.is_ok()
    })
    .await;
}

#[tokio::test]
async fn ns_11_a_refused_connection_is_an_error_until_the_server_listens() {
    let closed = Closed::new().expect("a port");
    let secrets = Secrets::right();
    let endpoint = format!("http://{}", closed.address());
    let client = StorageOs::new(options(&endpoint, &secrets));
    let failure = client.list().await.expect_err("fails");
    assert_eq!(failure.outcome(), Outcome::Transport);
    assert!(
        failure.to_string().contains("Connection refused"),
        "{failure}"
    );
    let _fake = closed.open(&Serving::default()).expect("opens");
    client.list().await.expect("lists");
}

#[tokio::test]
async fn ns_12_a_server_that_fails_is_quoted_and_cut() {
    let scene = Scene::new();
    let html = format!("<html>\r\n<b>gateway</b>{}", "x".repeat(100_000));
    for (status, body, begins) in [
        (
            503,
            r#"{"error": "store down"}"#,
            "StorageOS did not list namespaces (503): store down",
        ),
        (
            500,
            r#"{"message": 1}"#,
            r#"StorageOS did not list namespaces (500): {"message": 1}"#,
        ),
        (
            502,
            &*html,
            "StorageOS did not list namespaces (502): <html> <b>gateway</b>xxx",
        ),
        (
            500,
            "",
            "StorageOS did not list namespaces (500): the response has no message",
        ),
        (
            404,
            "404 page not found\n",
            "StorageOS did not list namespaces (404): 404 page not found",
        ),
        (204, "", "StorageOS did not list namespaces (204): "),
        (302, "", "StorageOS did not list namespaces (302): "),
    ] {
        scene
            .fake
            .fault(Endpoint::List, Fault::Answer(status, body.to_owned()), 1);
        let failure = scene.list_fails().await;
        assert_eq!(failure.outcome(), Outcome::Server);
        let message = failure.to_string();
        assert!(message.starts_with(begins), "{message}");
        assert!(message.chars().count() <= Sentence::LIMIT, "{message}");
    }
    scene.client.list().await.expect("lists");
}

#[tokio::test]
async fn ns_12_an_invalid_list_is_an_error_and_not_empty() {
    let scene = Scene::new();
    for body in ["", "null", "{}", "<html>", "[{\"id\": \"i\"", "[] []"] {
        scene
            .fake
            .fault(Endpoint::List, Fault::Body(body.to_owned()), 1);
        assert_eq!(
            scene.list_fails().await.outcome(),
            Outcome::Server,
            "{body}"
        );
    }
}

#[tokio::test]
async fn a_list_that_breaks_off_is_an_error() {
    let scene = Scene::new();
    scene.fake.fault(Endpoint::List, Fault::CutBody, 1);
    assert_eq!(scene.list_fails().await.outcome(), Outcome::Transport);
}

#[tokio::test]
async fn an_endless_body_is_abandoned() {
    // The body arrives in a thousand chunks. A client that read all of it would run out of memory.
    let scene = Scene::with(|options| options.request_limit = SHORT * 300);
    for endpoint in [Endpoint::Login, Endpoint::List] {
        scene.fake.fault(endpoint, Fault::EndlessBody(200), 1);
        let failure = scene.list_fails().await;
        assert_eq!(failure.outcome(), Outcome::Server);
        assert!(failure.to_string().contains("is longer than"), "{failure}");
    }
    scene.fake.fault(Endpoint::List, Fault::EndlessBody(500), 1);
    assert_eq!(scene.list_fails().await.outcome(), Outcome::Server);
    let namespace = scene.listed("one").await;
    scene
        .fake
        .fault(Endpoint::Delete, Fault::EndlessBody(200), 1);
    assert_eq!(
        scene.delete(&namespace).await,
        Ok(Deletion::Deleted),
        "as the status says"
    );
}

#[tokio::test]
async fn a_slow_body_is_a_timeout_unless_the_status_suffices() {
    let scene = Scene::new();
    let namespace = scene.listed("one").await;
    let hurried = scene.hurried().await;
    scene.fake.fault(Endpoint::List, Fault::SlowBody(200), 1);
    let failure = hurried.list().await.expect_err("fails");
    assert_eq!(failure.outcome(), Outcome::Timeout);
    // The status itself must arrive in time.
    eventually("the status suffices", async || {
        scene.fake.fault(Endpoint::Delete, Fault::SlowBody(409), 1);
        let answer = hurried.delete(&namespace).await;
        matches!(answer, Ok(Deletion::NotEmpty(_)))
    })
    .await;
}

#[tokio::test]
async fn no_other_host_is_sent_the_token() {
    let (scene, other) = (Scene::new(), Scene::new());
    let namespace = scene.listed("one").await;
    let elsewhere = format!("{}/v2/namespaces", other.fake.endpoint());
    for status in [301, 302, 303, 307, 308] {
        for endpoint in [Endpoint::List, Endpoint::Delete] {
            let redirect = Fault::Redirect(status, elsewhere.clone());
            scene.fake.fault(endpoint, redirect, 1);
        }
        assert_eq!(scene.list_fails().await.outcome(), Outcome::Server);
        let failure = scene.delete(&namespace).await.expect_err("fails");
        assert_eq!(failure.outcome(), Outcome::Server);
    }
    assert!(other.fake.requests().is_empty());
}
