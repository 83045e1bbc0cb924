//! Volume Warden is killed in the middle of a collection.

use super::{
    reads_and_metrics::{collection_ended, is_expected, live_get},
    support::Fixture,
};
use anyhow::{Result, ensure};

/// Volume Warden is killed three times, each time before a deletion. The next one deletes the
/// remaining orphans, and no orphan is deleted twice.
#[tokio::test]
async fn a_restarted_volume_warden_deletes_the_remaining_orphans() -> Result<()> {
    let fixture = Fixture::new("killed").await?;
    let names: Vec<_> = (0..8).map(|n| format!("orphan{n}")).collect();
    let ids: Vec<_> = names
        .iter()
        .map(|name| fixture.create_in_storage(name))
        .collect();
    let alive = fixture.create_in_both("alive").await?;
    let interposer = fixture.interposer().await?;
    let start = || {
        let warden = fixture.warden().kubeconfig(interposer.kubeconfig());
        warden.arg("--namespace-delete-workers=1").start()
    };
    for _ in 0..3 {
        // With one worker, no other deletion is in progress while this one is held. In any order of
        // the deletions, this orphan is not deleted yet.
        let mut left = fixture.storage.names();
        left.retain(|name| name.contains("orphan"));
        let middle = &left[left.len() / 2];
        let held = interposer.add(live_get(middle).hold());
        let warden = start().await?;
        held.held(1).await?;
        warden.process().kill()?;
        ensure!(fixture.storage.names().contains(middle));
    }
    let warden = start().await?;
    let complete = collection_ended(&warden).await?;
    for name in &names {
        fixture.is_removed(name).await?;
    }
    ensure!(fixture.storage.names() == [fixture.full_name("alive")]);
    ensure!(fixture.deletions_of(&alive) == 0);
    let mut deletions = ids.iter().map(|id| fixture.deletions_of(id));
    ensure!(deletions.all(|deletions| is_expected(deletions, 1, complete)));
    Ok(())
}

/// A namespace is deleted while no Volume Warden runs.
#[tokio::test]
async fn the_next_collection_finds_an_unobserved_deletion() -> Result<()> {
    let fixture = Fixture::new("unseen").await?;
    let id = fixture.create_in_both("shop").await?;
    let warden = fixture.warden().start().await?;
    collection_ended(&warden).await?;
    warden.process().kill()?;
    fixture.delete_and_wait("shop").await?;
    let _warden = fixture.warden().start().await?;
    fixture.is_removed("shop").await?;
    ensure!(fixture.deletions_of(&id) == 1);
    Ok(())
}
