//! The requests that the client sends, and how it interprets the responses.

use crate::support::{BackendFixture, Secrets, options};
use volume_warden::backend::{Backend, Deletion, Outcome, StorageOs};
use volume_warden_storageos::{Closed, Endpoint, Fault, Serving};

#[tokio::test]
async fn ns_01_one_list_and_one_delete_with_the_listed_version() {
    let fixture = BackendFixture::new();
    let namespace = fixture.create_listed("one").await;
    assert_eq!(
        Some(&namespace.version),
        fixture.fake.version("one").as_ref()
    );
    assert!(namespace.since.is_some());
    assert_eq!(fixture.delete(&namespace).await, Ok(Deletion::Deleted));
    assert!(fixture.fake.names().is_empty());

    let requests = fixture.fake.requests();
    let targets: Vec<_> = requests.iter().map(|request| &*request.target).collect();
    let id = &namespace.id;
    // The version `v+1&/=`, encoded for a query.
    let deletion = format!("/v2/namespaces/{id}?version=v%2B1%26%2F%3D&ignore-version=false");
    assert_eq!(targets, ["/v2/auth/login", "/v2/namespaces", &*deletion]);
}

#[tokio::test]
async fn ns_03_not_found_is_final_after_one_attempt() {
    let fixture = BackendFixture::new();
    let namespace = fixture.create_listed("one").await;
    fixture.fake.remove("one");
    assert_eq!(fixture.delete(&namespace).await, Ok(Deletion::NotFound));
    assert_eq!(fixture.fake.calls(Endpoint::Delete), 1);
}

#[tokio::test]
async fn ns_04_a_namespace_with_volumes_is_kept_until_they_are_gone() {
    let fixture = BackendFixture::new();
    fixture.fake.create("one");
    fixture.fake.fill("one");
    let namespace = fixture.listed("one").await;
    let Ok(Deletion::NotEmpty(why)) = fixture.delete(&namespace).await else {
        panic!("not refused");
    };
    assert_eq!(why.as_str(), "the namespace has 1 volumes");
    assert_eq!(fixture.fake.names(), ["one"]);
    fixture.fake.empty("one");
    let namespace = fixture.listed("one").await;
    assert_eq!(fixture.delete(&namespace).await, Ok(Deletion::Deleted));
}

/// A new volume does not change the version of its namespace, so the version in the request does
/// not protect the volume.
#[tokio::test]
async fn ns_04_a_namespace_that_was_filled_since_it_was_listed_is_kept() {
    let fixture = BackendFixture::new();
    let namespace = fixture.create_listed("one").await;
    fixture.fake.fill("one");
    assert_eq!(fixture.listed("one").await, namespace);
    let answer = fixture.delete(&namespace).await;
    assert!(matches!(answer, Ok(Deletion::NotEmpty(_))), "{answer:?}");
    assert_eq!(fixture.fake.names(), ["one"]);
}

#[tokio::test]
async fn a_recreated_namespace_is_younger_than_an_updated_one() {
    let fixture = BackendFixture::new();
    let namespace = fixture.create_listed("one").await;
    fixture.fake.touch("one");
    let updated = fixture.listed("one").await;
    assert_eq!(updated.since, namespace.since);
    assert_ne!(updated.version, namespace.version);
    let recreated = fixture.create_listed("one").await;
    assert!(recreated.since > namespace.since, "{recreated:?}");
}

#[tokio::test]
async fn ns_06_a_stale_version_needs_another_list() {
    let fixture = BackendFixture::new();
    let namespace = fixture.create_listed("one").await;
    fixture.fake.touch("one");
    assert_eq!(fixture.delete(&namespace).await, Ok(Deletion::Stale));
    assert_eq!(fixture.fake.names(), ["one"]);
    let namespace = fixture.listed("one").await;
    assert_eq!(fixture.delete(&namespace).await, Ok(Deletion::Deleted));
}

#[tokio::test]
async fn ns_09_missing_rights_are_reported() {
    let fixture = BackendFixture::new();
    let namespace = fixture.create_listed("one").await;
    for endpoint in [Endpoint::List, Endpoint::Delete] {
        fixture
            .fake
            .fault(endpoint, Fault::error(403, "ask an admin"), 1);
    }
    let listing = fixture.list_error().await;
    assert_eq!(listing.outcome(), Outcome::Forbidden);
    let deletion = fixture.delete(&namespace).await.expect_err("refused");
    assert_eq!(
        deletion.to_string(),
        "the StorageOS user may not delete the namespace; it must be an administrator (403): ask an admin"
    );
    assert_eq!(fixture.logins(), 1, "another login would not help");
}

#[tokio::test]
async fn a_namespace_without_a_version_is_not_deleted() {
    let fixture = BackendFixture::new();
    fixture
        .fake
        .list_also(serde_json::json!({"id": "id-0", "name": "one"}));
    let namespace = fixture.listed("one").await;
    let failure = fixture.delete(&namespace).await.expect_err("refused");
    assert_eq!(failure.outcome(), Outcome::Server);
    assert_eq!(fixture.fake.calls(Endpoint::Delete), 0);
}

#[tokio::test]
async fn only_a_plain_success_is_a_deletion() {
    let fixture = BackendFixture::new();
    let namespace = fixture.create_listed("one").await;
    for status in [
        201, 202, 206, 301, 307, 400, 405, 410, 422, 423, 451, 500, 503,
    ] {
        fixture
            .fake
            .fault(Endpoint::Delete, Fault::error(status, "no"), 1);
        let failure = fixture.delete(&namespace).await.expect_err("no deletion");
        assert_eq!(failure.outcome(), Outcome::Server, "{status}");
        assert!(
            failure.to_string().contains(&status.to_string()),
            "{failure}"
        );
    }
}

#[tokio::test]
async fn ns_32_an_endpoint_with_a_path() {
    let serving = Serving {
        path: "/storage/one",
        ..Serving::default()
    };
    let fake = Closed::new()
        .expect("a port")
        .open(&serving)
        .expect("opens");
    fake.create("one");
    let secrets = Secrets::valid();
    for path in ["/storage/one", "/storage/one/"] {
        let client = StorageOs::new(options(&format!("{}{path}", fake.endpoint()), &secrets));
        assert_eq!(client.list().await.expect("lists").namespaces.len(), 1);
    }
    let client = StorageOs::new(options(&fake.endpoint(), &secrets));
    let failure = client.list().await.expect_err("the path is missing");
    assert_eq!(failure.to_string(), "StorageOS refused the login (404)");
}

#[tokio::test]
async fn a_large_cluster_is_listed_at_once() {
    let fixture = BackendFixture::new();
    for number in 0..2000 {
        fixture.fake.create(&format!("namespace-{number}"));
    }
    let listing = fixture.client.list().await.expect("lists");
    assert_eq!((listing.namespaces.len(), listing.skipped), (2000, 0));
}
