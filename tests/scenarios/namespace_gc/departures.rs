//! A namespace ends in Kubernetes.

use super::{
    asking::{live_get, waiting},
    support::{NO_GC, Scene},
};
use anyhow::{Result, ensure};
use serde_json::json;
use volume_warden_controlplane::eventually;
use volume_warden_storageos::{Endpoint, Fault};

/// NS-01, NS-02, NS-14, NS-16: no collection comes, so each call of the storage is for the end of a
/// namespace.
#[tokio::test]
async fn only_the_end_of_a_namespace_counts_and_takes_one_list_and_one_deletion() -> Result<()> {
    let scene = Scene::quiet("end").await?;
    let orphan = scene.store("orphan");
    let _warden = scene.warden().arg(NO_GC).start().await?;
    scene.leads("first").await?;
    let id = scene.create_in_both("shop").await?;
    scene
        .patch("shop", json!({"metadata": {"labels": {"a": "b"}}}))
        .await?;
    // An object that stays keeps the namespace Terminating.
    let shop = scene.of("shop");
    let map = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "last", "namespace": shop, "finalizers": ["example.com/last"]},
    });
    let create = ["create", "-f", "-"];
    let cluster = &scene.cluster;
    cluster
        .kubectl_with_stdin(&create, &map.to_string())
        .await?;
    scene.delete("shop").await?;
    // Of the canary, and of one that the storage does not know.
    scene.create("unknown").await?;
    scene.delete_wholly("unknown").await?;
    eventually("the storage was asked", async || scene.lists() == 1).await?;
    ensure!(scene.deletions() == 0, "{:?}", scene.storage.requests());
    scene.settled().await?;
    ensure!(scene.lists() == 2 && scene.deletions() == 1);
    ensure!(scene.is_stored("shop"), "it is Terminating");

    let free = json!({"metadata": {"finalizers": null}}).to_string();
    let patch = ["patch", "configmap", "last", "-n", &shop, "--type=merge"];
    cluster
        .kubectl(&[&patch[..], &["-p", &free]].concat())
        .await?;
    scene.is_gone("shop").await?;
    scene.is_removed("shop").await?;
    scene.reported("shop", "NamespaceDeleted", 1).await?;
    ensure!(scene.lists() == 3 && scene.deletions() == 2);
    ensure!(scene.deletions_of(&id) == 1);
    ensure!(scene.deletions_of(&orphan) == 0 && scene.is_stored("orphan"));
    // The storage takes no other version than the present one, unless a request says so.
    let requests = scene.storage.requests();
    let forced = |target: &str| target.contains("ignore-version=true");
    ensure!(!requests.iter().any(|each| forced(&each.target)));
    Ok(())
}

/// NS-04: with volumes in it, it waits, which can be seen, and goes when they have gone.
#[tokio::test]
async fn one_with_volumes_waits_until_they_are_gone() -> Result<()> {
    let scene = Scene::new("full").await?;
    let warden = scene.warden().arg(NO_GC).start().await?;
    scene.leads("first").await?;
    let id = scene.create_in_both("shop").await?;
    scene.storage.fill(&scene.of("shop"));
    scene.delete_wholly("shop").await?;
    waiting(&warden, "NotEmpty", 1).await?;
    scene.reported("shop", "NamespaceNotEmpty", 1).await?;
    ensure!(scene.is_stored("shop") && scene.deletions_of(&id) == 1);
    scene.storage.empty(&scene.of("shop"));
    scene.is_removed("shop").await?;
    waiting(&warden, "NotEmpty", 0).await?;
    scene.reported("shop", "NamespaceDeleted", 1).await?;
    scene.reported("shop", "NamespaceNotEmpty", 1).await?;
    ensure!(scene.deletions_of(&id) == 2);
    Ok(())
}

/// NS-03, NS-06: what it had listed is old; it lists once more. What is gone already is no error.
#[tokio::test]
async fn a_stale_version_is_listed_again_and_one_that_is_gone_is_gone() -> Result<()> {
    let scene = Scene::quiet("stale").await?;
    let warden = scene.warden().arg(NO_GC).start().await?;
    scene.leads("first").await?;
    let id = scene.create_in_both("shop").await?;
    let stale = Fault::error(412, "the version is stale");
    scene.storage.fault(Endpoint::Delete, stale, 1);
    scene.delete_wholly("shop").await?;
    scene.is_removed("shop").await?;
    ensure!(scene.lists() == 2 && scene.deletions_of(&id) == 2);

    let gone = Fault::error(404, "there is no such namespace");
    let id = scene.create_in_both("yard").await?;
    scene.storage.fault(Endpoint::Delete, gone, 1);
    scene.delete_wholly("yard").await?;
    eventually("it was tried", async || scene.deletions_of(&id) == 1).await?;
    scene.settled().await?;
    ensure!(scene.deletions_of(&id) == 1);
    waiting(&warden, "Changing", 0).await
}

/// NS-13: it is there again when Kubernetes is asked for the last time.
#[tokio::test]
async fn one_that_is_made_again_is_kept() -> Result<()> {
    let scene = Scene::new("again").await?;
    let interposer = scene.interposer().await?;
    let warden = scene
        .warden()
        .arg(NO_GC)
        .kubeconfig(interposer.kubeconfig());
    let _warden = warden.start().await?;
    scene.leads("first").await?;
    let id = scene.create_in_both("shop").await?;
    let held = interposer.add(live_get(&scene.of("shop")).hold());
    scene.delete_wholly("shop").await?;
    held.held(1).await?;
    scene.create("shop").await?;
    drop(held);
    scene.settled().await?;
    ensure!(scene.deletions_of(&id) == 0 && scene.is_stored("shop"));
    // And it is as any other when it ends again.
    scene.delete_wholly("shop").await?;
    scene.is_removed("shop").await?;
    ensure!(scene.deletions_of(&id) == 1);
    Ok(())
}
