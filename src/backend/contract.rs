//! The contract of every storage backend, as tests. `contract!(a_stage)` in the tests of a backend
//! runs all of them.

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

pub async fn listing(stage: &impl BackendFixture) -> Listing {
    stage.backend().list().await.expect("lists")
}

pub async fn listed(stage: &impl BackendFixture, name: &str) -> Listed {
    let mut namespaces = listing(stage).await.namespaces.into_iter();
    let namespace = namespaces.find(|namespace| namespace.name == name);
    namespace.unwrap_or_else(|| panic!("{name} is not in the list"))
}

pub async fn delete(stage: &impl BackendFixture, namespace: &Listed) -> Deletion {
    stage.backend().delete(namespace).await.expect("answers")
}

pub async fn lists_what_is_there(stage: impl BackendFixture) {
    assert_eq!(listing(&stage).await, Listing::default());
    stage.create("one").await;
    stage.create("two").await;
    stage.fill("two").await;
    let mut found = listing(&stage).await.namespaces;
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
        listed(&stage, "one").await,
        found[0],
        "nothing happened to it"
    );
}

pub async fn deletes_an_empty_one_and_no_other(stage: impl BackendFixture) {
    for name in ["one", "two"] {
        stage.create(name).await;
    }
    let namespace = listed(&stage, "one").await;
    assert_eq!(delete(&stage, &namespace).await, Deletion::Deleted);
    assert!(!stage.has("one").await && stage.has("two").await);
    assert_eq!(listing(&stage).await.namespaces.len(), 1);
    assert_eq!(delete(&stage, &namespace).await, Deletion::NotFound);
    assert!(stage.has("two").await);
}

pub async fn keeps_one_that_is_not_empty_until_it_is(stage: impl BackendFixture) {
    stage.create("one").await;
    stage.fill("one").await;
    for _ in 0..2 {
        let namespace = listed(&stage, "one").await;
        let answer = delete(&stage, &namespace).await;
        assert!(matches!(answer, Deletion::NotEmpty(_)), "{answer:?}");
        assert!(stage.has("one").await);
    }
    stage.empty("one").await;
    let namespace = listed(&stage, "one").await;
    assert_eq!(delete(&stage, &namespace).await, Deletion::Deleted);
    assert!(!stage.has("one").await);
}

pub async fn keeps_one_that_was_filled_since_it_was_listed(stage: impl BackendFixture) {
    stage.create("one").await;
    let namespace = listed(&stage, "one").await;
    stage.fill("one").await;
    let answer = delete(&stage, &namespace).await;
    assert!(
        matches!(answer, Deletion::Stale | Deletion::NotEmpty(_)),
        "{answer:?}"
    );
    assert!(stage.has("one").await);
}

pub async fn keeps_a_later_one_of_the_same_name(stage: impl BackendFixture) {
    stage.create("one").await;
    let earlier = listed(&stage, "one").await;
    stage.remove("one").await;
    stage.create("one").await;
    let answer = delete(&stage, &earlier).await;
    assert!(
        matches!(answer, Deletion::Stale | Deletion::NotFound),
        "{answer:?}"
    );
    assert!(stage.has("one").await);
    let later = listed(&stage, "one").await;
    assert_eq!(delete(&stage, &later).await, Deletion::Deleted);
}

pub async fn skips_and_counts_what_is_no_namespace(stage: impl BackendFixture) {
    stage.create("one").await;
    let create_invalid_entries = stage.create_invalid_entries().await;
    assert!(create_invalid_entries > 0);
    let listing = listing(&stage).await;
    let names: Vec<_> = listing.namespaces.iter().map(|each| &*each.name).collect();
    assert_eq!(
        (names, listing.skipped),
        (vec!["one"], create_invalid_entries)
    );
}

pub async fn fails_when_its_storage_does(stage: impl BackendFixture) {
    stage.create("one").await;
    let namespace = listed(&stage, "one").await;
    stage.fail().await;
    let failure = stage.backend().list().await.expect_err("cannot list");
    assert!(!failure.why().as_str().is_empty());
    stage
        .backend()
        .delete(&namespace)
        .await
        .expect_err("cannot delete");
    stage.mend().await;
    assert!(stage.has("one").await);
    assert_eq!(delete(&stage, &namespace).await, Deletion::Deleted);
}

pub async fn a_deletion_among_many_happens_once(stage: impl BackendFixture) {
    stage.create("one").await;
    let namespace = listed(&stage, "one").await;
    let attempts = (0..8).map(|_| delete(&stage, &namespace));
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

/// Runs every test of the contract, each with a new stage.
macro_rules! contract {
    ($stage:expr) => {
        $crate::backend::contract::contract!(
            $stage,
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
    ($stage:expr, $($name:ident),+ $(,)?) => {
        $(
            #[tokio::test]
            async fn $name() {
                $crate::backend::contract::$name($stage.await).await;
            }
        )+
    };
}

pub(crate) use contract;
