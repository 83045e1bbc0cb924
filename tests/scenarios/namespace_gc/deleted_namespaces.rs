//! Namespaces that are deleted from Kubernetes while Volume Warden runs.

use super::{
    reads_and_metrics::{live_get, waiting},
    support::{Fixture, NO_GC},
};
use anyhow::{Result, ensure};
use serde_json::json;
use volume_warden_controlplane::eventually;
use volume_warden_storageos::{Endpoint, Fault};

/// NS-01, NS-02, NS-14, NS-16: there is no collection, so each request to the storage is caused by
/// the deletion of a namespace.
#[tokio::test]
async fn only_a_deleted_namespace_causes_one_list_and_one_deletion() -> Result<()> {
    let fixture = Fixture::exclusive("end").await?;
    let orphan = fixture.create_in_storage("orphan");
    let _warden = fixture.warden().arg(NO_GC).start().await?;
    fixture.leads("first").await?;
    let id = fixture.create_in_both("shop").await?;
    fixture
        .patch("shop", json!({"metadata": {"labels": {"a": "b"}}}))
        .await?;
    // An object that stays keeps the namespace Terminating.
    let shop = fixture.full_name("shop");
    let map = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "last", "namespace": shop, "finalizers": ["example.com/last"]},
    });
    let create = ["create", "-f", "-"];
    let cluster = &fixture.cluster;
    cluster
        .kubectl_with_stdin(&create, &map.to_string())
        .await?;
    fixture.delete("shop").await?;
    // A namespace that the storage does not have causes a LIST and no deletion. The canary then
    // causes one of each.
    fixture.create("unknown").await?;
    fixture.delete_and_wait("unknown").await?;
    eventually("the storage was listed", async || fixture.lists() == 1).await?;
    ensure!(fixture.deletions() == 0, "{:?}", fixture.storage.requests());
    fixture.settled().await?;
    ensure!(fixture.lists() == 2 && fixture.deletions() == 1);
    ensure!(
        fixture.is_in_storage("shop"),
        "a Terminating namespace is kept in the storage"
    );

    let no_finalizers = json!({"metadata": {"finalizers": null}}).to_string();
    let patch = ["patch", "configmap", "last", "-n", &shop, "--type=merge"];
    cluster
        .kubectl(&[&patch[..], &["-p", &no_finalizers]].concat())
        .await?;
    fixture.is_gone("shop").await?;
    fixture.is_removed("shop").await?;
    fixture.reported("shop", "NamespaceDeleted", 1).await?;
    ensure!(fixture.lists() == 3 && fixture.deletions() == 2);
    ensure!(fixture.deletions_of(&id) == 1);
    ensure!(fixture.deletions_of(&orphan) == 0 && fixture.is_in_storage("orphan"));
    // The storage deletes a namespace only by its current version, unless a request disables this.
    let requests = fixture.storage.requests();
    let forced = |target: &str| target.contains("ignore-version=true");
    ensure!(!requests.iter().any(|each| forced(&each.target)));
    Ok(())
}

/// NS-04: a namespace with volumes in the storage waits, as a metric and an Event show. It is
/// deleted from the storage once its volumes are deleted.
#[tokio::test]
async fn a_namespace_with_volumes_waits_until_they_are_deleted() -> Result<()> {
    let fixture = Fixture::new("full").await?;
    let warden = fixture.warden().arg(NO_GC).start().await?;
    fixture.leads("first").await?;
    let id = fixture.create_in_both("shop").await?;
    fixture.storage.fill(&fixture.full_name("shop"));
    fixture.delete_and_wait("shop").await?;
    waiting(&warden, "NotEmpty", 1).await?;
    fixture.reported("shop", "NamespaceNotEmpty", 1).await?;
    ensure!(fixture.is_in_storage("shop") && fixture.deletions_of(&id) == 1);
    fixture.storage.empty(&fixture.full_name("shop"));
    fixture.is_removed("shop").await?;
    waiting(&warden, "NotEmpty", 0).await?;
    fixture.reported("shop", "NamespaceDeleted", 1).await?;
    fixture.reported("shop", "NamespaceNotEmpty", 1).await?;
    ensure!(fixture.deletions_of(&id) == 2);
    Ok(())
}

/// NS-03, NS-06: if the listed version is stale, or the storage does not find the namespace, Volume
/// Warden lists the storage again. A namespace that the storage no longer has is not an error.
#[tokio::test]
async fn a_stale_version_is_listed_again_and_a_missing_one_is_no_error() -> Result<()> {
    let fixture = Fixture::exclusive("stale").await?;
    let warden = fixture.warden().arg(NO_GC).start().await?;
    fixture.leads("first").await?;
    let id = fixture.create_in_both("shop").await?;
    let stale = Fault::error(412, "the version is stale");
    fixture.storage.fault(Endpoint::Delete, stale, 1);
    fixture.delete_and_wait("shop").await?;
    fixture.is_removed("shop").await?;
    ensure!(fixture.lists() == 2 && fixture.deletions_of(&id) == 2);

    // The answer may be that of a proxy.
    let gone = Fault::error(404, "there is no such namespace");
    let id = fixture.create_in_both("yard").await?;
    fixture.storage.fault(Endpoint::Delete, gone, 1);
    fixture.delete_and_wait("yard").await?;
    fixture.is_removed("yard").await?;
    ensure!(fixture.lists() == 4 && fixture.deletions_of(&id) == 2);
    waiting(&warden, "Changing", 0).await
}

/// NS-13: the live GET before the deletion finds that the namespace exists again.
#[tokio::test]
async fn a_recreated_namespace_is_kept() -> Result<()> {
    let fixture = Fixture::new("again").await?;
    let interposer = fixture.interposer().await?;
    let warden = fixture
        .warden()
        .arg(NO_GC)
        .kubeconfig(interposer.kubeconfig());
    let _warden = warden.start().await?;
    fixture.leads("first").await?;
    let id = fixture.create_in_both("shop").await?;
    let held = interposer.add(live_get(&fixture.full_name("shop")).hold());
    fixture.delete_and_wait("shop").await?;
    held.held(1).await?;
    fixture.create("shop").await?;
    drop(held);
    fixture.settled().await?;
    ensure!(fixture.deletions_of(&id) == 0 && fixture.is_in_storage("shop"));
    // When it is deleted again, it is handled like any other.
    fixture.delete_and_wait("shop").await?;
    fixture.is_removed("shop").await?;
    ensure!(fixture.deletions_of(&id) == 1);
    Ok(())
}
