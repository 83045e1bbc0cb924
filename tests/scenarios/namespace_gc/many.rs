//! A storage with many namespaces.

use super::{
    kubernetes::create_namespace,
    reads_and_metrics::{collection_ended, is_expected, metric},
    support::Fixture,
};
use crate::support::is_soak;
use anyhow::{Result, ensure};
use futures::{StreamExt, TryStreamExt, stream};
use std::time::Instant;
use volume_warden_controlplane::eventually;
use volume_warden_storageos::Endpoint;

/// One list of the storage, two of Kubernetes, and one deletion for each orphan. Prints the time,
/// with `--nocapture`.
#[tokio::test]
async fn many_orphans_are_deleted_with_three_lists() -> Result<()> {
    // More than one page of a LIST.
    let stored = if is_soak() { 2000 } else { 700 };
    let orphans = stored / 4;
    let fixture = Fixture::exclusive("many").await?;
    let ids: Vec<_> = (0..stored)
        .map(|index| fixture.create_in_storage(&format!("n{index}")))
        .collect();
    let names = (orphans..stored).map(|index| fixture.full_name(&format!("n{index}")));
    let create = |name: String| {
        let namespaces = fixture.namespaces.clone();
        async move { create_namespace(&namespaces, &name).await }
    };
    let created = stream::iter(names).map(create).buffer_unordered(16);
    created.try_collect::<()>().await?;
    let began = Instant::now();
    let warden = fixture.warden().arg("--gc-max-deletions=0").start().await?;
    let complete = collection_ended(&warden).await?;
    println!(
        "{orphans} of {stored} namespaces collected in {:.2} s, the program's start included",
        began.elapsed().as_secs_f64()
    );
    eventually(
        "only the namespaces that Kubernetes has are left",
        async || fixture.storage.names().len() == stored - orphans,
    )
    .await?;
    ensure!(
        is_expected(fixture.lists(), 1, complete),
        "{}",
        fixture.lists()
    );
    let live = r#"volume_warden_live_lists_total{resource="namespaces"}"#;
    ensure!(metric(&warden, live).await? == 2);
    let mut deletions = ids[..orphans].iter().map(|id| fixture.deletions_of(id));
    ensure!(deletions.all(|deletions| is_expected(deletions, 1, complete)));
    ensure!(is_expected(fixture.deletions(), orphans, complete));
    ensure!(fixture.storage.calls(Endpoint::Login) == 1);
    Ok(())
}
