//! Several replicas, one of which deletes. NS-23.

use super::{
    asking::{all_runs, collected, done_times, live_get, live_list, metric},
    support::{NO_GC, OFTEN, Scene},
};
use anyhow::{Result, ensure};
use volume_warden_controlplane::{Warden, eventually};

/// It knows that it does not lead, and has long heard of all that happened before: only a follower
/// reads the Lease.
async fn follows(scene: &Scene, warden: &Warden) -> Result<()> {
    let audit = scene.cluster.audit();
    let mark = audit.mark()?;
    eventually("it follows", async || {
        let calls = audit.since(mark)?.by_user_agent("volume-warden/");
        let of_lease = calls.iter().filter(|call| call.name == scene.name);
        let reads = of_lease.filter(|call| call.verb == "get").count();
        anyhow::Ok(reads >= 4 && metric(warden, "volume_warden_leader").await? == 0)
    })
    .await
}

/// The other one does not even ask.
#[tokio::test]
async fn only_the_leader_asks_and_deletes() -> Result<()> {
    let scene = Scene::new("two").await?;
    let ids: Vec<_> = (0..10)
        .map(|n| scene.store(&format!("orphan{n}")))
        .collect();
    let first = scene.warden().start().await?;
    scene.leads("first").await?;
    let second = scene.replica("second").arg(OFTEN).start().await?;
    let whole = collected(&first).await?;
    for n in 0..ids.len() {
        scene.is_removed(&format!("orphan{n}")).await?;
    }
    let id = scene.create_in_both("shop").await?;
    scene.delete_wholly("shop").await?;
    scene.is_removed("shop").await?;
    follows(&scene, &second).await?;
    ensure!(all_runs(&second).await? == 0);
    let metrics = second.metrics().await?;
    ensure!(
        !metrics.contains("volume_warden_backend_requests_total{"),
        "{metrics}"
    );
    ensure!(scene.deletions_of(&id) == 1);
    let mut deletions = ids.iter().map(|id| scene.deletions_of(id));
    ensure!(deletions.all(|deletions| done_times(deletions, 1, whole)));

    first.process().kill()?;
    scene.leads("second").await?;
    let id = scene.store("late");
    scene.is_removed("late").await?;
    ensure!(scene.deletions_of(&id) == 1);
    Ok(())
}

/// A leader that slept longer than its Lease wakes up in the middle of a collection, and to the end
/// of a namespace. The one that leads now is kept from deleting, so any deletion would be the first
/// one's.
#[tokio::test]
async fn a_leader_that_was_paused_deletes_nothing() -> Result<()> {
    let scene = Scene::new("paused").await?;
    let (orphan, shop) = (scene.store("orphan"), scene.create_in_both("shop").await?);
    let (before, after) = (scene.interposer().await?, scene.interposer().await?);
    let waits = scene.not_leading(&before);
    let first = scene.warden().kubeconfig(before.kubeconfig());
    let first = first.start().await?;
    let looks = before.add(live_list().hold());
    drop(waits);
    scene.leads("first").await?;
    looks.held(1).await?;
    let last_look = after.add(live_get(&scene.of("")).hold());
    let second = scene.replica("second").arg(NO_GC);
    let second = second.kubeconfig(after.kubeconfig()).start().await?;

    first.process().pause()?;
    scene.delete_wholly("shop").await?;
    scene.leads("second").await?;
    drop(looks);
    first.process().resume()?;
    follows(&scene, &first).await?;
    ensure!(scene.deletions() == 0);
    ensure!(metric(&second, "volume_warden_leader").await? == 1);

    // Its turn comes again, and with it the collection.
    drop(last_look);
    ensure!(second.stop().await?.success());
    scene.is_removed("shop").await?;
    scene.is_removed("orphan").await?;
    ensure!(scene.deletions_of(&orphan) == 1 && scene.deletions_of(&shop) == 1);
    Ok(())
}
