//! Several replicas, one leader.

use super::fault_fixture::{FaultFixture, claim_posts};
use anyhow::{Result, ensure};
use kube::ResourceExt;
use serde_json::json;
use volume_warden_controlplane::{Interposer, eventually};

/// DP-31: the leader is killed during the creation of a claim, its successor stops gracefully;
/// each time another replica continues, and no claim is created twice.
#[tokio::test]
async fn another_replica_continues() -> Result<()> {
    let fixture = FaultFixture::new("replicas").await?;
    let (askers, cluster) = (&fixture.askers, &fixture.askers.space.cluster);
    let first = fixture.builder("first").start().await?;
    askers.settled().await?;
    let others = Interposer::for_service_account(cluster, "volume-warden", "volume-warden").await?;
    let second = fixture
        .builder("second")
        .kubeconfig(others.kubeconfig())
        .start()
        .await?;

    let on_the_way = fixture.interposer.add(claim_posts().hold_response());
    let pod = askers.ask("pod", "data", json!({})).await?;
    on_the_way.held(1).await?;
    let made = askers.claim("data").await?.uid();
    first.process().kill()?;
    let pending = askers.ask("pending", "other", json!({})).await?;
    let third = fixture.builder("third").start().await?;
    drop(on_the_way);
    askers.belongs("other", &pending).await?;
    assert_eq!(askers.belongs("data", &pod).await?.uid(), made);
    askers.settled().await?;

    // One of the two leads; the other one takes over when it stops.
    ensure!(second.stop().await?.success());
    let after = askers.ask("after", "third", json!({})).await?;
    askers.belongs("third", &after).await?;
    // A replica that stops does not publish the Events that wait for their turn.
    for pod in ["pending", "after"] {
        askers.has_event(pod, "PVCProvisioned", "created").await?;
    }
    ensure!(third.stop().await?.success());
    let _last = fixture.builder("last").start().await?;
    let last = askers.ask("last", "fourth", json!({})).await?;
    askers.belongs("fourth", &last).await?;
    askers
        .has_event("last", "PVCProvisioned", "created")
        .await?;
    let posts = |path: &Interposer| {
        let seen = path.requests();
        let posts = seen.iter().filter(|seen| seen.method == "POST");
        posts
            .filter(|seen| seen.path.contains("/persistentvolumeclaims"))
            .count()
    };
    // Four claims and two canaries.
    assert_eq!(posts(&fixture.interposer) + posts(&others), 6);
    Ok(())
}

/// A leader that was paused for longer than its Lease creates no claim for a pod created meanwhile
/// when it resumes. The second leader is prevented from creating it, so that the claim is missing.
#[tokio::test]
async fn a_leader_that_was_paused_makes_nothing() -> Result<()> {
    let fixture = FaultFixture::new("paused").await?;
    let (askers, cluster) = (&fixture.askers, &fixture.askers.space.cluster);
    let first = fixture.builder("first").start().await?;
    askers.settled().await?;
    let others = Interposer::for_service_account(cluster, "volume-warden", "volume-warden").await?;
    let held = others.add(claim_posts().hold());
    let second = fixture.builder("second").kubeconfig(others.kubeconfig());
    let _second = second.start().await?;
    first.process().pause()?;
    let pod = askers.ask("pod", "data", json!({})).await?;
    held.held(1).await?;
    let (posts, looks) = (fixture.posts(), fixture.interposer.count("GET", "/leases/"));
    first.process().resume()?;
    // Only a follower reads the Lease. After a few reads its watch has long delivered the pod.
    eventually("the paused replica follows", async || {
        fixture.interposer.count("GET", "/leases/") >= looks + 4
    })
    .await?;
    assert_eq!(fixture.posts(), posts);
    drop(held);
    askers.belongs("data", &pod).await.map(drop)
}
