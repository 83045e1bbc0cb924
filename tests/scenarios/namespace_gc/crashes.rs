//! Volume Warden is killed in the middle of a collection.

use super::{
    asking::{collected, done_times, live_get},
    support::Scene,
};
use anyhow::{Result, ensure};

/// Again and again, before the next deletion: what is gone stays gone, the rest is removed with the
/// next, and nothing twice.
#[tokio::test]
async fn what_one_leaves_the_next_one_takes() -> Result<()> {
    let scene = Scene::new("killed").await?;
    let names: Vec<_> = (0..8).map(|n| format!("orphan{n}")).collect();
    let ids: Vec<_> = names.iter().map(|name| scene.store(name)).collect();
    let alive = scene.create_in_both("alive").await?;
    let interposer = scene.interposer().await?;
    let start = || {
        let warden = scene.warden().kubeconfig(interposer.kubeconfig());
        warden.arg("--namespace-delete-workers=1").start()
    };
    for _ in 0..3 {
        // One at a time: nothing else is on the way while this one is held. In whatever order they
        // go, it has not gone yet.
        let mut left = scene.storage.names();
        left.retain(|name| name.contains("orphan"));
        let middle = &left[left.len() / 2];
        let held = interposer.add(live_get(middle).hold());
        let warden = start().await?;
        held.held(1).await?;
        warden.process().kill()?;
        ensure!(scene.storage.names().contains(middle));
    }
    let warden = start().await?;
    let whole = collected(&warden).await?;
    for name in &names {
        scene.is_removed(name).await?;
    }
    ensure!(scene.storage.names() == [scene.of("alive")]);
    ensure!(scene.deletions_of(&alive) == 0);
    let mut deletions = ids.iter().map(|id| scene.deletions_of(id));
    ensure!(deletions.all(|deletions| done_times(deletions, 1, whole)));
    Ok(())
}

/// A namespace is deleted while no Volume Warden runs.
#[tokio::test]
async fn an_end_that_nobody_saw_is_found_by_the_next_collection() -> Result<()> {
    let scene = Scene::new("unseen").await?;
    let id = scene.create_in_both("shop").await?;
    let warden = scene.warden().start().await?;
    collected(&warden).await?;
    warden.process().kill()?;
    scene.delete_wholly("shop").await?;
    let _warden = scene.warden().start().await?;
    scene.is_removed("shop").await?;
    ensure!(scene.deletions_of(&id) == 1);
    Ok(())
}
