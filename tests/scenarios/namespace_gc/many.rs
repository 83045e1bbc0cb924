//! A storage of some size.

use super::{
    asking::{collected, done_times, metric},
    kubernetes::create_namespace,
    support::Scene,
};
use anyhow::{Result, ensure};
use futures::{StreamExt, TryStreamExt, stream};
use std::time::Instant;
use volume_warden_controlplane::eventually;
use volume_warden_storageos::Endpoint;

const STORED: usize = 2000;
const ORPHANS: usize = 500;

/// One list of the storage, two of Kubernetes, and a deletion for each. The time is printed, with `--nocapture`.
#[tokio::test]
async fn a_quarter_of_two_thousand_goes_with_three_lists() -> Result<()> {
    let scene = Scene::quiet("many").await?;
    let ids: Vec<_> = (0..STORED)
        .map(|index| scene.store(&format!("n{index}")))
        .collect();
    let names = (ORPHANS..STORED).map(|index| scene.of(&format!("n{index}")));
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
        "{ORPHANS} of {STORED} namespaces collected in {:.2} s, the program's start included",
        began.elapsed().as_secs_f64()
    );
    eventually("what is left is alive", async || {
        scene.storage.names().len() == STORED - ORPHANS
    })
    .await?;
    ensure!(done_times(scene.lists(), 1, whole), "{}", scene.lists());
    let live = r#"volume_warden_live_lists_total{resource="namespaces"}"#;
    ensure!(metric(&warden, live).await? == 2);
    let mut deletions = ids[..ORPHANS].iter().map(|id| scene.deletions_of(id));
    ensure!(deletions.all(|deletions| done_times(deletions, 1, whole)));
    ensure!(done_times(scene.deletions(), ORPHANS, whole));
    ensure!(scene.storage.calls(Endpoint::Login) == 1);
    Ok(())
}
