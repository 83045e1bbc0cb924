//! Several replicas, one of which deletes. NS-23.

use super::{
    reads_and_metrics::{all_runs, collection_ended, is_expected, live_get, live_list, metric},
    support::{Fixture, GC_EACH_SECOND, NO_GC},
};
use anyhow::{Result, ensure};
use volume_warden_controlplane::{Warden, eventually};

/// Waits until the replica knows that it does not lead: only a follower reads the Lease. After
/// several reads it has also received all earlier events.
async fn follows(fixture: &Fixture, warden: &Warden) -> Result<()> {
    let audit = fixture.cluster.audit();
    let mark = audit.mark()?;
    eventually("the replica follows", async || {
        let calls = audit.since(mark)?.by_user_agent("volume-warden/");
        let of_lease = calls.iter().filter(|call| call.name == fixture.name);
        let reads = of_lease.filter(|call| call.verb == "get").count();
        anyhow::Ok(reads >= 4 && metric(warden, "volume_warden_leader").await? == 0)
    })
    .await
}

/// The follower sends no request to the storage.
#[tokio::test]
async fn only_the_leader_uses_the_storage() -> Result<()> {
    let fixture = Fixture::new("two").await?;
    let ids: Vec<_> = (0..10)
        .map(|n| fixture.create_in_storage(&format!("orphan{n}")))
        .collect();
    let first = fixture.warden().start().await?;
    fixture.leads("first").await?;
    let second = fixture
        .replica("second")
        .arg(GC_EACH_SECOND)
        .start()
        .await?;
    let complete = collection_ended(&first).await?;
    for n in 0..ids.len() {
        fixture.is_removed(&format!("orphan{n}")).await?;
    }
    let id = fixture.create_in_both("shop").await?;
    fixture.delete_and_wait("shop").await?;
    fixture.is_removed("shop").await?;
    follows(&fixture, &second).await?;
    ensure!(all_runs(&second).await? == 0);
    let metrics = second.metrics().await?;
    ensure!(
        !metrics.contains("volume_warden_backend_requests_total{"),
        "{metrics}"
    );
    ensure!(fixture.deletions_of(&id) == 1);
    let mut deletions = ids.iter().map(|id| fixture.deletions_of(id));
    ensure!(deletions.all(|deletions| is_expected(deletions, 1, complete)));

    first.process().kill()?;
    fixture.leads("second").await?;
    let id = fixture.create_in_storage("late");
    fixture.is_removed("late").await?;
    ensure!(fixture.deletions_of(&id) == 1);
    Ok(())
}

/// A leader is paused in the middle of a collection until another replica leads, and a namespace is
/// deleted meanwhile. The new leader cannot delete, because its live GETs are held. So any deletion
/// in the storage would come from the paused replica.
#[tokio::test]
async fn a_leader_that_was_paused_deletes_nothing() -> Result<()> {
    let fixture = Fixture::new("paused").await?;
    let (orphan, shop) = (
        fixture.create_in_storage("orphan"),
        fixture.create_in_both("shop").await?,
    );
    let (first_interposer, second_interposer) =
        (fixture.interposer().await?, fixture.interposer().await?);
    let not_leading = fixture.prevent_leading(&first_interposer);
    let first = fixture.warden().kubeconfig(first_interposer.kubeconfig());
    let first = first.start().await?;
    let lists = first_interposer.add(live_list().hold());
    drop(not_leading);
    fixture.leads("first").await?;
    lists.held(1).await?;
    let gets = second_interposer.add(live_get(&fixture.full_name("")).hold());
    let second = fixture.replica("second").arg(NO_GC);
    let second = second
        .kubeconfig(second_interposer.kubeconfig())
        .start()
        .await?;

    first.process().pause()?;
    fixture.delete_and_wait("shop").await?;
    fixture.leads("second").await?;
    drop(lists);
    first.process().resume()?;
    follows(&fixture, &first).await?;
    ensure!(fixture.deletions() == 0);
    ensure!(metric(&second, "volume_warden_leader").await? == 1);

    // The first replica leads again, and runs a collection.
    drop(gets);
    ensure!(second.stop().await?.success());
    fixture.is_removed("shop").await?;
    fixture.is_removed("orphan").await?;
    ensure!(fixture.deletions_of(&orphan) == 1 && fixture.deletions_of(&shop) == 1);
    Ok(())
}
