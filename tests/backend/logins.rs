//! When the client logs in, and when it does not log in again.

use crate::support::{BackendFixture, NEVER, Secrets};
use futures::future::join_all;
use std::time::Duration;
use volume_warden::backend::{Backend, Deletion, Outcome};
use volume_warden_storageos::{Endpoint, FOR_EVER, Fault, LIFETIME};

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test]
async fn ns_07_ns_36_a_refused_token_leads_to_one_login_with_the_current_files() {
    let fixture = BackendFixture::new();
    let namespace = fixture.create_listed("one").await;
    fixture.fake.set_password("rotated");
    fixture.secrets.write("password", " rotated\n");
    fixture.fake.end_sessions();
    fixture.client.list().await.expect("lists");
    assert_eq!(
        (fixture.logins(), fixture.fake.calls(Endpoint::List)),
        (2, 3)
    );

    fixture.fake.end_sessions();
    assert_eq!(fixture.delete(&namespace).await, Ok(Deletion::Deleted));
    assert_eq!(
        (fixture.logins(), fixture.fake.calls(Endpoint::Delete)),
        (3, 2)
    );
}

/// A list and a deletion with an expired token log in again. No task refreshes the token.
#[tokio::test]
async fn an_expired_token_leads_to_one_login() {
    let fixture = BackendFixture::new();
    let namespace = fixture.create_listed("one").await;
    fixture.fake.advance(LIFETIME / 2);
    fixture.client.list().await.expect("lists");
    assert_eq!(fixture.logins(), 1, "the token is still valid");
    fixture.fake.advance(LIFETIME / 2 + SECOND);
    fixture.client.list().await.expect("lists");
    assert_eq!(
        (fixture.logins(), fixture.fake.calls(Endpoint::List)),
        (2, 4)
    );
    fixture.fake.advance(LIFETIME + SECOND);
    assert_eq!(fixture.delete(&namespace).await, Ok(Deletion::Deleted));
    assert_eq!(
        (fixture.logins(), fixture.fake.calls(Endpoint::Delete)),
        (3, 2)
    );
}

#[tokio::test]
async fn ns_08_a_token_that_is_refused_right_after_the_login_is_an_error() {
    let fixture = BackendFixture::new();
    fixture
        .fake
        .fault(Endpoint::List, Fault::error(401, "no"), FOR_EVER);
    let failure = fixture.list_error().await;
    assert_eq!(failure.outcome(), Outcome::Unauthorized);
    assert_eq!(
        failure.to_string(),
        "StorageOS refuses to list namespaces, even right after a login (401): no"
    );
    assert_eq!(
        (fixture.logins(), fixture.fake.calls(Endpoint::List)),
        (2, 2)
    );
}

#[tokio::test]
async fn ns_08_many_refused_at_once_share_one_login() {
    let fixture = BackendFixture::new();
    fixture.client.list().await.expect("lists");
    fixture.fake.end_sessions();
    let lists = join_all((0..50).map(|_| fixture.client.list())).await;
    assert!(lists.iter().all(Result::is_ok));
    assert_eq!(fixture.logins(), 2);
}

#[tokio::test]
async fn ns_08_a_storm_of_refusals_is_no_storm_of_logins() {
    let fixture = BackendFixture::with(|options| options.login_interval = NEVER);
    fixture
        .fake
        .fault(Endpoint::List, Fault::error(401, "no"), FOR_EVER);
    for _ in 0..5 {
        for failed in join_all((0..20).map(|_| fixture.client.list())).await {
            let failure = failed.expect_err("fails");
            assert_eq!(failure.outcome(), Outcome::Unauthorized);
        }
    }
    assert_eq!(fixture.logins(), 1);
}

#[tokio::test]
async fn a_failed_login_is_not_retried_too_soon() {
    let fixture = BackendFixture::with(|options| options.login_interval = NEVER);
    fixture
        .fake
        .fault(Endpoint::Login, Fault::error(503, "starting"), 1);
    for _ in 0..5 {
        let failures = join_all((0..20).map(|_| fixture.list_error())).await;
        for failure in failures {
            assert_eq!(failure.outcome(), Outcome::Server);
            assert_eq!(failure.to_string(), "StorageOS refused the login (503)");
        }
    }
    assert_eq!(
        (fixture.logins(), fixture.fake.calls(Endpoint::List)),
        (1, 0)
    );
}

#[tokio::test]
async fn an_abandoned_login_counts_too() {
    let fixture = BackendFixture::with(|options| options.login_interval = NEVER);
    fixture.fake.fault(Endpoint::Login, Fault::Silence, 1);
    {
        let mut list = fixture.client.list();
        crate::support::eventually("the login has arrived", async || {
            assert!(futures::poll!(&mut list).is_pending());
            fixture.logins() == 1
        })
        .await;
    }
    assert_eq!(fixture.list_error().await.outcome(), Outcome::Timeout);
    assert_eq!(fixture.logins(), 1);
}

#[tokio::test]
async fn wrong_credentials_are_reported_without_their_value() {
    let fixture = BackendFixture::new();
    fixture.secrets.write("password", "mistyped-secret");
    let failure = fixture.list_error().await;
    assert_eq!(failure.outcome(), Outcome::Unauthorized);
    assert_eq!(failure.to_string(), "StorageOS refused the login (401)");
}

#[tokio::test]
async fn ns_27_missing_files_are_read_once_they_exist() {
    let fixture = BackendFixture::with(|options| options.login_interval = NEVER);
    let file = |name| std::fs::remove_file(fixture.secrets.path().join(name));
    file("username").and(file("password")).expect("removes");
    let failure = fixture.list_error().await;
    assert_eq!(failure.outcome(), Outcome::Unauthorized);
    assert!(
        failure.to_string().contains("username: No such file"),
        "{failure}"
    );
    assert_eq!(fixture.logins(), 0);

    let valid = Secrets::valid();
    for name in ["username", "password"] {
        let text = std::fs::read_to_string(valid.path().join(name)).expect("reads");
        fixture.secrets.write(name, &format!("\n {text}\t\r\n"));
    }
    fixture.client.list().await.expect("lists");
}
