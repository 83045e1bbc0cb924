//! Kubernetes has the last word, and none is no word.

use super::{
    asking::{collected, done_times, live_get, live_list, more_runs, runs, waiting},
    support::{NO_GC, OFTEN, Scene},
};
use anyhow::{Result, ensure};
use serde_json::json;

/// NS-20: made in Kubernetes after the first look, and found at the second.
#[tokio::test]
async fn one_that_is_made_between_the_looks_is_kept() -> Result<()> {
    let scene = Scene::new("between").await?;
    let (id, orphan) = (scene.store("new"), scene.store("orphan"));
    let interposer = scene.interposer().await?;
    let waits = scene.not_leading(&interposer);
    let asked = interposer.add(live_get(&scene.of("new")));
    let warden = scene.warden().kubeconfig(interposer.kubeconfig());
    let warden = warden.start().await?;
    let first = interposer.add(live_list().times(1).hold_response());
    drop(waits);
    first.held(1).await?;
    scene.create("new").await?;
    drop(first);
    scene.is_removed("orphan").await?;
    let whole = collected(&warden).await?;
    ensure!(scene.deletions_of(&id) == 0 && scene.is_stored("new"));
    let deletions = scene.deletions_of(&orphan);
    ensure!(done_times(deletions, 1, whole), "{deletions}");
    // It was not read by name again.
    ensure!(asked.taken() == 0);
    Ok(())
}

/// NS-20: made after the second look, and found when Kubernetes is asked for it by name.
#[tokio::test]
async fn one_that_is_made_just_before_its_deletion_is_kept() -> Result<()> {
    let scene = Scene::new("before").await?;
    let id = scene.store("new");
    let interposer = scene.interposer().await?;
    let held = interposer.add(live_get(&scene.of("new")).hold());
    let warden = scene.warden().kubeconfig(interposer.kubeconfig());
    let _warden = warden.start().await?;
    held.held(1).await?;
    scene.create("new").await?;
    drop(held);
    scene.settled().await?;
    ensure!(scene.deletions_of(&id) == 0 && scene.is_stored("new"));
    Ok(())
}

/// What Kubernetes has is listed after what the storage has: what is made in both meanwhile is no orphan.
#[tokio::test]
async fn kubernetes_is_listed_after_the_storage() -> Result<()> {
    let scene = Scene::quiet("order").await?;
    scene.store("orphan");
    let interposer = scene.interposer().await?;
    let waits = scene.not_leading(&interposer);
    let warden = scene.warden().kubeconfig(interposer.kubeconfig());
    let _warden = warden.start().await?;
    let held = interposer.add(live_list().hold());
    drop(waits);
    held.held(1).await?;
    ensure!(scene.lists() == 1);
    drop(held);
    scene.is_removed("orphan").await
}

/// NS-21: each of the two looks may fail, or report no namespace at all, and nothing is concluded.
/// Soon it looks again.
#[tokio::test]
async fn nothing_is_concluded_from_a_list_that_fails_or_is_empty() -> Result<()> {
    let scene = Scene::new("blind").await?;
    let id = scene.store("orphan");
    let interposer = scene.interposer().await?;
    let empty = json!({
        "kind": "NamespaceList", "apiVersion": "v1", "metadata": {"resourceVersion": "1"}, "items": [],
    });
    let failing = || interposer.add(live_list().respond(500, "InternalError", "not now"));
    let empty = || interposer.add(live_list().answer(&empty));
    let first_look = || interposer.add(live_list().hold_response().times(1));
    let waits = scene.not_leading(&interposer);
    let warden = scene
        .warden()
        .arg(OFTEN)
        .kubeconfig(interposer.kubeconfig());
    let warden = warden.start().await?;
    let fails = failing();
    drop(waits);
    more_runs(&warden, "KubernetesFailed", 2).await?;
    // There is always one in force.
    let nothing = empty();
    drop(fails);
    more_runs(&warden, "KubernetesEmpty", 2).await?;
    let first = first_look();
    drop(nothing);
    first.held(1).await?;
    let fails = failing();
    drop(first);
    more_runs(&warden, "KubernetesFailed", 1).await?;
    let first = first_look();
    drop(fails);
    first.held(1).await?;
    let nothing = empty();
    drop(first);
    more_runs(&warden, "KubernetesEmpty", 1).await?;
    ensure!(scene.deletions() == 0 && scene.is_stored("orphan"));
    ensure!(runs(&warden, "Done").await? == 0);
    drop(nothing);
    scene.is_removed("orphan").await?;
    ensure!(scene.deletions_of(&id) == 1);
    Ok(())
}

/// The same, if nothing reads it by name.
#[tokio::test]
async fn one_that_cannot_be_asked_for_is_kept() -> Result<()> {
    let scene = Scene::new("unasked").await?;
    let id = scene.create_in_both("shop").await?;
    let interposer = scene.interposer().await?;
    let refused = live_get(&scene.of("shop")).respond(500, "InternalError", "not now");
    let refused = interposer.add(refused);
    let warden = scene
        .warden()
        .arg(NO_GC)
        .kubeconfig(interposer.kubeconfig());
    let warden = warden.start().await?;
    scene.leads("first").await?;
    scene.delete_wholly("shop").await?;
    waiting(&warden, "Unconfirmed", 1).await?;
    ensure!(scene.deletions_of(&id) == 0 && scene.is_stored("shop"));
    drop(refused);
    scene.is_removed("shop").await?;
    ensure!(scene.deletions_of(&id) == 1);
    Ok(())
}
