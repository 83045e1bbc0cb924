//! A storage of some size.

use super::{
    asking::{collected, done_times, metric},
    kubernetes::create_namespace,
    support::Scene,
};
use crate::support::is_soak;
use anyhow::{Result, ensure};
use futures::{StreamExt, TryStreamExt, stream};
use std::time::Instant;
use volume_warden_controlplane::eventually;
use volume_warden_storageos::Endpoint;

/// One list of the storage, two of Kubernetes, and a deletion for each. The time is printed, with
/// `--nocapture`.
#[tokio::test]
async fn a_quarter_of_hundreds_goes_with_three_lists() -> Result<()> {
    // More than one page of a LIST.
    let stored = if is_soak() { 2000 } else { 700 };
    let orphans = stored / 4;
    let scene = Scene::quiet("many").await?;
    let ids: Vec<_> = (0..stored)
        .map(|index| scene.store(&format!("n{index}")))
        .collect();
    let names = (orphans..stored).map(|index| scene.of(&format!("n{index}")));
    let create = |name: String| {
        let namespaces = scene.namespaces.clone();
        async move { create_namespace(&namespaces, &name).await }
    };
    let created = stream::iter(names).map(create).buffer_unordered(16);
    created.try_collect::<()>().await?;
    let began = Instant::now();
    let warden = scene.warden().arg("--gc-max-deletions=0").start().await?;
    let whole = collected(&warden).await?;
    println!(
        "{orphans} of {stored} namespaces collected in {:.2} s, the program's start included",
        began.elapsed().as_secs_f64()
    );
    eventually("what is left is alive", async || {
        scene.storage.names().len() == stored - orphans
    })
    .await?;
    ensure!(done_times(scene.lists(), 1, whole), "{}", scene.lists());
    let live = r#"volume_warden_live_lists_total{resource="namespaces"}"#;
    ensure!(metric(&warden, live).await? == 2);
    let mut deletions = ids[..orphans].iter().map(|id| scene.deletions_of(id));
    ensure!(deletions.all(|deletions| done_times(deletions, 1, whole)));
    ensure!(done_times(scene.deletions(), orphans, whole));
    ensure!(scene.storage.calls(Endpoint::Login) == 1);
    Ok(())
}
