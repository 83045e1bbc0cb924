//! Logins after a refused token.

use crate::support::{NEVER, Scene, Secrets};
use futures::future::join_all;
use std::time::Duration;
use volume_warden::backend::{Backend, Deletion, Outcome};
use volume_warden_storageos::{Endpoint, FOR_EVER, Fault, LIFETIME};

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test]
async fn ns_07_ns_36_a_refused_token_leads_to_one_login_with_the_current_files() {
    let scene = Scene::new();
    let namespace = scene.listed("one").await;
    scene.fake.set_password("rotated");
    scene.secrets.write("password", " rotated\n");
    scene.fake.end_sessions();
    scene.client.list().await.expect("lists");
    assert_eq!((scene.logins(), scene.fake.calls(Endpoint::List)), (2, 3));

    scene.fake.end_sessions();
    assert_eq!(scene.delete(&namespace).await, Ok(Deletion::Deleted));
    assert_eq!((scene.logins(), scene.fake.calls(Endpoint::Delete)), (3, 2));
}

/// Whatever request it is, as if no task kept the token fresh.
#[tokio::test]
async fn an_expired_token_leads_to_one_login() {
    let scene = Scene::new();
    let namespace = scene.listed("one").await;
    scene.fake.advance(LIFETIME / 2);
    scene.client.list().await.expect("lists");
    assert_eq!(scene.logins(), 1, "it is still valid");
    scene.fake.advance(LIFETIME / 2 + SECOND);
    scene.client.list().await.expect("lists");
    assert_eq!((scene.logins(), scene.fake.calls(Endpoint::List)), (2, 4));
    scene.fake.advance(LIFETIME + SECOND);
    assert_eq!(scene.delete(&namespace).await, Ok(Deletion::Deleted));
    assert_eq!((scene.logins(), scene.fake.calls(Endpoint::Delete)), (3, 2));
}

#[tokio::test]
async fn ns_08_a_token_that_is_refused_right_after_the_login_is_an_error() {
    let scene = Scene::new();
    scene
        .fake
        .fault(Endpoint::List, Fault::error(401, "no"), FOR_EVER);
    let failure = scene.list_fails().await;
    assert_eq!(failure.outcome(), Outcome::Unauthorized);
    assert_eq!(
        failure.to_string(),
        "StorageOS refuses to list namespaces, even right after a login (401): no"
    );
    assert_eq!((scene.logins(), scene.fake.calls(Endpoint::List)), (2, 2));
}

#[tokio::test]
async fn ns_08_many_refused_at_once_share_one_login() {
    let scene = Scene::new();
    scene.client.list().await.expect("lists");
    scene.fake.end_sessions();
    let lists = join_all((0..50).map(|_| scene.client.list())).await;
    assert!(lists.iter().all(Result::is_ok));
    assert_eq!(scene.logins(), 2);
}

#[tokio::test]
async fn ns_08_a_storm_of_refusals_is_no_storm_of_logins() {
    let scene = Scene::with(|options| options.login_interval = NEVER);
    scene
        .fake
        .fault(Endpoint::List, Fault::error(401, "no"), FOR_EVER);
    for _ in 0..5 {
        for failed in join_all((0..20).map(|_| scene.client.list())).await {
            let failure = failed.expect_err("fails");
            assert_eq!(failure.outcome(), Outcome::Unauthorized);
        }
    }
    assert_eq!(scene.logins(), 1);
}

#[tokio::test]
async fn a_failed_login_is_not_retried_too_soon() {
    let scene = Scene::with(|options| options.login_interval = NEVER);
    scene
        .fake
        .fault(Endpoint::Login, Fault::error(503, "starting"), 1);
    for _ in 0..5 {
        let failures = join_all((0..20).map(|_| scene.list_fails())).await;
        for failure in failures {
            assert_eq!(failure.outcome(), Outcome::Server);
            assert_eq!(failure.to_string(), "StorageOS refused the login (503)");
        }
    }
    assert_eq!((scene.logins(), scene.fake.calls(Endpoint::List)), (1, 0));
}

#[tokio::test]
async fn an_abandoned_login_counts_too() {
    let scene = Scene::with(|options| options.login_interval = NEVER);
    scene.fake.fault(Endpoint::Login, Fault::Silence, 1);
    {
        let mut list = scene.client.list();
        crate::support::eventually("the login has arrived", async || {
            assert!(futures::poll!(&mut list).is_pending());
            scene.logins() == 1
        })
        .await;
    }
    assert_eq!(scene.list_fails().await.outcome(), Outcome::Timeout);
    assert_eq!(scene.logins(), 1);
}

#[tokio::test]
async fn wrong_credentials_are_reported_without_their_value() {
    let scene = Scene::new();
    scene.secrets.write("password", "mistyped-secret");
    let failure = scene.list_fails().await;
    assert_eq!(failure.outcome(), Outcome::Unauthorized);
    assert_eq!(failure.to_string(), "StorageOS refused the login (401)");
}

#[tokio::test]
async fn ns_27_missing_files_are_read_once_they_exist() {
    let scene = Scene::with(|options| options.login_interval = NEVER);
    let file = |name| std::fs::remove_file(scene.secrets.path().join(name));
    file("username").and(file("password")).expect("removes");
    let failure = scene.list_fails().await;
    assert_eq!(failure.outcome(), Outcome::Unauthorized);
    assert!(
        failure.to_string().contains("username: No such file"),
        "{failure}"
    );
    assert_eq!(scene.logins(), 0);

    let right = Secrets::right();
    for name in ["username", "password"] {
        let text = std::fs::read_to_string(right.path().join(name)).expect("reads");
        scene.secrets.write(name, &format!("\n {text}\t\r\n"));
    }
    scene.client.list().await.expect("lists");
}
