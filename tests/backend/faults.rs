//! Calls to a StorageOS with faults.

use crate::support::{BackendFixture, SHORT, Secrets, eventually, options};
use volume_warden::backend::{Backend, Deletion, Outcome, Sentence, StorageOs};
use volume_warden_storageos::{Closed, Endpoint, Fault, Serving};

/// A deletion with this fault fails with the outcome `expected`, and is not retried.
async fn deletion_fails_with(
    fixture: &BackendFixture,
    client: &StorageOs,
    fault: Fault,
    expected: Outcome,
) {
    let namespace = fixture.create_listed("one").await;
    fixture.fake.fault(Endpoint::Delete, fault, 1);
    let failure = client.delete(&namespace).await.expect_err("fails");
    assert_eq!(failure.outcome(), expected, "{failure}");
    let calls = || fixture.fake.calls(Endpoint::Delete);
    // The server may still be processing the abandoned request.
    eventually("the request has arrived", async || calls() > 0).await;
    assert_eq!(calls(), 1, "the request is not retried");
}

/// The same with a new fixture, which it returns. The client can still list afterwards.
async fn deletion_fails(fault: Fault, expected: Outcome) -> BackendFixture {
    let fixture = BackendFixture::new();
    deletion_fails_with(&fixture, &fixture.client, fault, expected).await;
    // The client is still usable.
    let again = fixture.client.list().await.expect("lists");
    assert_eq!(again.namespaces.len(), fixture.fake.names().len());
    fixture
}

#[tokio::test]
async fn ns_10_a_connection_that_breaks_in_a_deletion_is_an_error() {
    let fixture = deletion_fails(Fault::CutBefore, Outcome::Transport).await;
    assert_eq!(fixture.fake.names(), ["one"]);
    let fixture = deletion_fails(Fault::CutAfter, Outcome::Transport).await;
    assert!(
        fixture.fake.names().is_empty(),
        "StorageOS has deleted the namespace"
    );
}

#[tokio::test]
async fn ns_10_a_deletion_without_an_answer_is_late() {
    let fixture = BackendFixture::new();
    let client = fixture.client_with_short_timeout().await;
    deletion_fails_with(&fixture, &client, Fault::Silence, Outcome::Timeout).await;
    eventually("the client is usable again", async || {
        let again = client.list().await;
        again.is_ok_and(|again| again.namespaces.len() == fixture.fake.names().len())
    })
    .await;
}

#[tokio::test]
async fn each_call_has_its_own_time_limit() {
    let fixture = BackendFixture::with(|options| options.call_limit = SHORT);
    fixture.fake.fault(Endpoint::List, Fault::Silence, 1);
    let failure = fixture.list_error().await;
    assert_eq!(failure.outcome(), Outcome::Timeout);
    assert_eq!(failure.to_string(), "StorageOS did not answer within 1 s");
}

#[tokio::test]
async fn a_login_without_an_answer_is_late_too() {
    let fixture = BackendFixture::with(|options| options.request_limit = SHORT);
    fixture.fake.fault(Endpoint::Login, Fault::Silence, 1);
    assert_eq!(fixture.list_error().await.outcome(), Outcome::Timeout);
    eventually("a list succeeds", async || {
        fixture.client.list().await.is_ok()
    })
    .await;
}

#[tokio::test]
async fn ns_11_a_refused_connection_is_an_error_until_the_server_listens() {
    let closed = Closed::new().expect("a port");
    let secrets = Secrets::valid();
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
    let fixture = BackendFixture::new();
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
        fixture
            .fake
            .fault(Endpoint::List, Fault::Answer(status, body.to_owned()), 1);
        let failure = fixture.list_error().await;
        assert_eq!(failure.outcome(), Outcome::Server);
        let message = failure.to_string();
        assert!(message.starts_with(begins), "{message}");
        assert!(message.chars().count() <= Sentence::LIMIT, "{message}");
    }
    fixture.client.list().await.expect("lists");
}

#[tokio::test]
async fn ns_12_an_invalid_list_is_an_error_and_not_empty() {
    let fixture = BackendFixture::new();
    for body in ["", "null", "{}", "<html>", "[{\"id\": \"i\"", "[] []"] {
        fixture
            .fake
            .fault(Endpoint::List, Fault::Body(body.to_owned()), 1);
        assert_eq!(
            fixture.list_error().await.outcome(),
            Outcome::Server,
            "{body}"
        );
    }
}

#[tokio::test]
async fn a_list_that_breaks_off_is_an_error() {
    let fixture = BackendFixture::new();
    fixture.fake.fault(Endpoint::List, Fault::CutBody, 1);
    assert_eq!(fixture.list_error().await.outcome(), Outcome::Transport);
}

#[tokio::test]
async fn an_endless_body_is_abandoned() {
    // The body arrives in a thousand chunks. A client that read all of it would run out of memory.
    let fixture = BackendFixture::with(|options| options.request_limit = SHORT * 300);
    for endpoint in [Endpoint::Login, Endpoint::List] {
        fixture.fake.fault(endpoint, Fault::EndlessBody(200), 1);
        let failure = fixture.list_error().await;
        assert_eq!(failure.outcome(), Outcome::Server);
        assert!(failure.to_string().contains("is longer than"), "{failure}");
    }
    fixture
        .fake
        .fault(Endpoint::List, Fault::EndlessBody(500), 1);
    assert_eq!(fixture.list_error().await.outcome(), Outcome::Server);
    let namespace = fixture.create_listed("one").await;
    fixture
        .fake
        .fault(Endpoint::Delete, Fault::EndlessBody(200), 1);
    assert_eq!(
        fixture.delete(&namespace).await,
        Ok(Deletion::Deleted),
        "the status decides"
    );
}

#[tokio::test]
async fn a_slow_body_is_a_timeout_unless_the_status_suffices() {
    let fixture = BackendFixture::new();
    let namespace = fixture.create_listed("one").await;
    let client = fixture.client_with_short_timeout().await;
    fixture.fake.fault(Endpoint::List, Fault::SlowBody(200), 1);
    let failure = client.list().await.expect_err("fails");
    assert_eq!(failure.outcome(), Outcome::Timeout);
    // The status itself must arrive in time.
    eventually("the status suffices", async || {
        fixture
            .fake
            .fault(Endpoint::Delete, Fault::SlowBody(409), 1);
        let answer = client.delete(&namespace).await;
        matches!(answer, Ok(Deletion::NotEmpty(_)))
    })
    .await;
}

#[tokio::test]
async fn no_other_host_is_sent_the_token() {
    let (fixture, other) = (BackendFixture::new(), BackendFixture::new());
    let namespace = fixture.create_listed("one").await;
    let elsewhere = format!("{}/v2/namespaces", other.fake.endpoint());
    for status in [301, 302, 303, 307, 308] {
        for endpoint in [Endpoint::List, Endpoint::Delete] {
            let redirect = Fault::Redirect(status, elsewhere.clone());
            fixture.fake.fault(endpoint, redirect, 1);
        }
        assert_eq!(fixture.list_error().await.outcome(), Outcome::Server);
        let failure = fixture.delete(&namespace).await.expect_err("fails");
        assert_eq!(failure.outcome(), Outcome::Server);
    }
    assert!(other.fake.requests().is_empty());
}
