//! The live reads of Kubernetes before a deletion: the namespaces that they find are kept, and
//! nothing is deleted if a read fails.

use super::{
    reads_and_metrics::{
        collection_ended, is_expected, live_get, live_list, more_runs, runs, waiting,
    },
    support::{Fixture, GC_EACH_SECOND, NO_GC},
};
use anyhow::{Result, ensure};
use serde_json::json;

/// NS-20: a namespace is created in Kubernetes after the first LIST of a collection, and the second
/// LIST finds it.
#[tokio::test]
async fn a_namespace_created_between_the_lists_is_kept() -> Result<()> {
    let fixture = Fixture::new("between").await?;
    let (id, orphan) = (
        fixture.create_in_storage("new"),
        fixture.create_in_storage("orphan"),
    );
    let interposer = fixture.interposer().await?;
    let not_leading = fixture.prevent_leading(&interposer);
    let gets = interposer.add(live_get(&fixture.full_name("new")));
    let warden = fixture.warden().kubeconfig(interposer.kubeconfig());
    let warden = warden.start().await?;
    let first_list = interposer.add(live_list().times(1).hold_response());
    drop(not_leading);
    first_list.held(1).await?;
    fixture.create("new").await?;
    drop(first_list);
    fixture.is_removed("orphan").await?;
    let complete = collection_ended(&warden).await?;
    ensure!(fixture.deletions_of(&id) == 0 && fixture.is_in_storage("new"));
    let deletions = fixture.deletions_of(&orphan);
    ensure!(is_expected(deletions, 1, complete), "{deletions}");
    // No live GET was needed.
    ensure!(gets.taken() == 0);
    Ok(())
}

/// NS-20: a namespace is created in Kubernetes after the second LIST, and the live GET finds it.
#[tokio::test]
async fn a_namespace_created_just_before_its_deletion_is_kept() -> Result<()> {
    let fixture = Fixture::new("before").await?;
    let id = fixture.create_in_storage("new");
    let interposer = fixture.interposer().await?;
    let held = interposer.add(live_get(&fixture.full_name("new")).hold());
    let warden = fixture.warden().kubeconfig(interposer.kubeconfig());
    let _warden = warden.start().await?;
    held.held(1).await?;
    fixture.create("new").await?;
    drop(held);
    fixture.settled().await?;
    ensure!(fixture.deletions_of(&id) == 0 && fixture.is_in_storage("new"));
    Ok(())
}

/// A namespace that is created in the storage and in Kubernetes during a collection is therefore
/// not an orphan.
#[tokio::test]
async fn kubernetes_is_listed_after_the_storage() -> Result<()> {
    let fixture = Fixture::exclusive("order").await?;
    fixture.create_in_storage("orphan");
    let interposer = fixture.interposer().await?;
    let not_leading = fixture.prevent_leading(&interposer);
    let warden = fixture.warden().kubeconfig(interposer.kubeconfig());
    let _warden = warden.start().await?;
    let held = interposer.add(live_list().hold());
    drop(not_leading);
    held.held(1).await?;
    ensure!(fixture.lists() == 1);
    drop(held);
    fixture.is_removed("orphan").await
}

/// NS-21: if one of the two LISTs fails or contains no namespace, the collection deletes nothing.
/// Another collection follows soon.
#[tokio::test]
async fn nothing_is_deleted_after_a_failed_or_empty_list() -> Result<()> {
    let fixture = Fixture::new("blind").await?;
    let id = fixture.create_in_storage("orphan");
    let interposer = fixture.interposer().await?;
    let no_namespaces = json!({
        "kind": "NamespaceList", "apiVersion": "v1", "metadata": {"resourceVersion": "1"}, "items": [],
    });
    let failing = || interposer.add(live_list().respond(500, "InternalError", "not now"));
    let empty = || interposer.add(live_list().answer(&no_namespaces));
    let hold_first_list = || interposer.add(live_list().hold_response().times(1));
    let not_leading = fixture.prevent_leading(&interposer);
    let warden = fixture
        .warden()
        .arg(GC_EACH_SECOND)
        .kubeconfig(interposer.kubeconfig());
    let warden = warden.start().await?;
    let failing_lists = failing();
    drop(not_leading);
    more_runs(&warden, "KubernetesFailed", 2).await?;
    // One of the two rules always applies.
    let empty_lists = empty();
    drop(failing_lists);
    more_runs(&warden, "KubernetesEmpty", 2).await?;
    let first_list = hold_first_list();
    drop(empty_lists);
    first_list.held(1).await?;
    let failing_lists = failing();
    drop(first_list);
    more_runs(&warden, "KubernetesFailed", 1).await?;
    let first_list = hold_first_list();
    drop(failing_lists);
    first_list.held(1).await?;
    let empty_lists = empty();
    drop(first_list);
    more_runs(&warden, "KubernetesEmpty", 1).await?;
    ensure!(fixture.deletions() == 0 && fixture.is_in_storage("orphan"));
    ensure!(runs(&warden, "Done").await? == 0);
    drop(empty_lists);
    fixture.is_removed("orphan").await?;
    ensure!(fixture.deletions_of(&id) == 1);
    Ok(())
}

/// The live GET before the deletion fails at first. The namespace is deleted from the storage once
/// the GET succeeds.
#[tokio::test]
async fn a_namespace_is_kept_if_its_live_get_fails() -> Result<()> {
    let fixture = Fixture::new("unasked").await?;
    let id = fixture.create_in_both("shop").await?;
    let interposer = fixture.interposer().await?;
    let refused = live_get(&fixture.full_name("shop")).respond(500, "InternalError", "not now");
    let refused = interposer.add(refused);
    let warden = fixture
        .warden()
        .arg(NO_GC)
        .kubeconfig(interposer.kubeconfig());
    let warden = warden.start().await?;
    fixture.leads("first").await?;
    fixture.delete_and_wait("shop").await?;
    waiting(&warden, "Unconfirmed", 1).await?;
    ensure!(fixture.deletions_of(&id) == 0 && fixture.is_in_storage("shop"));
    drop(refused);
    fixture.is_removed("shop").await?;
    ensure!(fixture.deletions_of(&id) == 1);
    Ok(())
}
