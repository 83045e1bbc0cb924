//! The contract of every storage backend, as tests. `contract!(a_fixture)` in the tests of a
//! backend runs all of them.

use super::{Backend, Deletion, Listed, Listing};

/// A backend under test, with direct access to its storage.
pub trait BackendFixture {
    /// Returns the backend under test.
    fn backend(&self) -> &dyn Backend;
    /// Creates an empty namespace, without any content of an earlier namespace of that name.
    async fn create(&self, name: &str);
    /// Stores something in the namespace.
    async fn fill(&self, name: &str);
    /// Deletes the content of the namespace.
    async fn empty(&self, name: &str);
    /// Deletes the empty namespace.
    async fn remove(&self, name: &str);
    /// Returns whether the namespace exists in the storage.
    async fn has(&self, name: &str) -> bool;
    /// Creates entries beside the namespaces that are not namespaces, and returns their number.
    async fn create_invalid_entries(&self) -> usize;
    /// Makes the storage unusable without losing anything in it.
    async fn fail(&self);
    /// Makes the storage usable again after [`Self::fail`].
    async fn mend(&self);
}

pub async fn listing(fixture: &impl BackendFixture) -> Listing {
    fixture.backend().list().await.expect("lists")
}

pub async fn listed(fixture: &impl BackendFixture, name: &str) -> Listed {
    let mut namespaces = listing(fixture).await.namespaces.into_iter();
    let namespace = namespaces.find(|namespace| namespace.name == name);
    namespace.unwrap_or_else(|| panic!("{name} is not in the list"))
}

pub async fn delete(fixture: &impl BackendFixture, namespace: &Listed) -> Deletion {
    fixture.backend().delete(namespace).await.expect("answers")
}

pub async fn lists_what_is_there(fixture: impl BackendFixture) {
    assert_eq!(listing(&fixture).await, Listing::default());
    fixture.create("one").await;
    fixture.create("two").await;
    fixture.fill("two").await;
    let mut found = listing(&fixture).await.namespaces;
    found.sort_by(|a, b| a.name.cmp(&b.name));
    let names: Vec<_> = found.iter().map(|each| &*each.name).collect();
    assert_eq!(names, ["one", "two"]);
    assert!(
        found
            .iter()
            .all(|each| !each.id.is_empty() && !each.version.is_empty())
    );
    assert_ne!(found[0].id, found[1].id);
    assert_eq!(
        listed(&fixture, "one").await,
        found[0],
        "nothing happened to it"
    );
}

pub async fn deletes_an_empty_one_and_no_other(fixture: impl BackendFixture) {
    for name in ["one", "two"] {
        fixture.create(name).await;
    }
    let namespace = listed(&fixture, "one").await;
    assert_eq!(delete(&fixture, &namespace).await, Deletion::Deleted);
    assert!(!fixture.has("one").await && fixture.has("two").await);
    assert_eq!(listing(&fixture).await.namespaces.len(), 1);
    assert_eq!(delete(&fixture, &namespace).await, Deletion::NotFound);
    assert!(fixture.has("two").await);
}

pub async fn keeps_one_that_is_not_empty_until_it_is(fixture: impl BackendFixture) {
    fixture.create("one").await;
    fixture.fill("one").await;
    for _ in 0..2 {
        let namespace = listed(&fixture, "one").await;
        let answer = delete(&fixture, &namespace).await;
        assert!(matches!(answer, Deletion::NotEmpty(_)), "{answer:?}");
        assert!(fixture.has("one").await);
    }
    fixture.empty("one").await;
    let namespace = listed(&fixture, "one").await;
    assert_eq!(delete(&fixture, &namespace).await, Deletion::Deleted);
    assert!(!fixture.has("one").await);
}

pub async fn keeps_one_that_was_filled_since_it_was_listed(fixture: impl BackendFixture) {
    fixture.create("one").await;
    let namespace = listed(&fixture, "one").await;
    fixture.fill("one").await;
    let answer = delete(&fixture, &namespace).await;
    assert!(
        matches!(answer, Deletion::Stale | Deletion::NotEmpty(_)),
        "{answer:?}"
    );
    assert!(fixture.has("one").await);
}

pub async fn keeps_a_later_one_of_the_same_name(fixture: impl BackendFixture) {
    fixture.create("one").await;
    let earlier = listed(&fixture, "one").await;
    fixture.remove("one").await;
    fixture.create("one").await;
    let answer = delete(&fixture, &earlier).await;
    assert!(
        matches!(answer, Deletion::Stale | Deletion::NotFound),
        "{answer:?}"
    );
    assert!(fixture.has("one").await);
    let later = listed(&fixture, "one").await;
    assert_eq!(delete(&fixture, &later).await, Deletion::Deleted);
}

pub async fn skips_and_counts_what_is_no_namespace(fixture: impl BackendFixture) {
    fixture.create("one").await;
    let invalid = fixture.create_invalid_entries().await;
    assert!(invalid > 0);
    let listing = listing(&fixture).await;
    let names: Vec<_> = listing.namespaces.iter().map(|each| &*each.name).collect();
    assert_eq!((names, listing.skipped), (vec!["one"], invalid));
}

pub async fn fails_when_its_storage_does(fixture: impl BackendFixture) {
    fixture.create("one").await;
    let namespace = listed(&fixture, "one").await;
    fixture.fail().await;
    let failure = fixture.backend().list().await.expect_err("cannot list");
    assert!(!failure.why().as_str().is_empty());
    fixture
        .backend()
        .delete(&namespace)
        .await
        .expect_err("cannot delete");
    fixture.mend().await;
    assert!(fixture.has("one").await);
    assert_eq!(delete(&fixture, &namespace).await, Deletion::Deleted);
}

pub async fn a_deletion_among_many_happens_once(fixture: impl BackendFixture) {
    fixture.create("one").await;
    let namespace = listed(&fixture, "one").await;
    let attempts = (0..8).map(|_| delete(&fixture, &namespace));
    let answers = futures::future::join_all(attempts).await;
    let deleted = answers
        .iter()
        .filter(|answer| **answer == Deletion::Deleted);
    assert_eq!(deleted.count(), 1, "{answers:?}");
    // A concurrent deletion can find the namespace changed, because another one is under way.
    let rest = [Deletion::Deleted, Deletion::NotFound, Deletion::Stale];
    let known = answers.iter().all(|answer| rest.contains(answer));
    assert!(known, "{answers:?}");
}

/// Runs every test of the contract, each with a new fixture.
macro_rules! contract {
    ($fixture:expr) => {
        $crate::backend::contract::contract!(
            $fixture,
            lists_what_is_there,
            deletes_an_empty_one_and_no_other,
            keeps_one_that_is_not_empty_until_it_is,
            keeps_one_that_was_filled_since_it_was_listed,
            keeps_a_later_one_of_the_same_name,
            skips_and_counts_what_is_no_namespace,
            fails_when_its_storage_does,
            a_deletion_among_many_happens_once,
        );
    };
    ($fixture:expr, $($name:ident),+ $(,)?) => {
        $(
            #[tokio::test]
            async fn $name() {
                $crate::backend::contract::$name($fixture.await).await;
            }
        )+
    };
}

pub(crate) use contract;
