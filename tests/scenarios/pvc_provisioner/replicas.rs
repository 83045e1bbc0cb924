//! Several replicas with leader election.

use super::fault_fixture::{FaultFixture, claim_posts};
use anyhow::{Result, ensure};
use kube::ResourceExt;
use serde_json::json;
use volume_warden_controlplane::{Interposer, eventually};

/// DP-31: the leader is killed during the creation of a claim, and the next leader stops
/// gracefully. Each time another replica becomes the leader and continues, and no claim is created
/// twice.
#[tokio::test]
async fn another_replica_continues() -> Result<()> {
    let fixture = FaultFixture::new("replicas").await?;
    let (pod_space, cluster) = (&fixture.pod_space, &fixture.pod_space.space.cluster);
    let first = fixture.builder("first").start().await?;
    pod_space.wait_until_processed().await?;
    let other_interposer =
        Interposer::for_service_account(cluster, "volume-warden", "volume-warden").await?;
    let second = fixture
        .builder("second")
        .kubeconfig(other_interposer.kubeconfig())
        .start()
        .await?;

    let held_response = fixture.interposer.add(claim_posts().hold_response());
    let pod = pod_space.request_claim("pod", "data", json!({})).await?;
    held_response.held(1).await?;
    let uid = pod_space.claim("data").await?.uid();
    first.process().kill()?;
    let pending = pod_space
        .request_claim("pending", "other", json!({}))
        .await?;
    let third = fixture.builder("third").start().await?;
    drop(held_response);
    pod_space.belongs("other", &pending).await?;
    assert_eq!(pod_space.belongs("data", &pod).await?.uid(), uid);
    pod_space.wait_until_processed().await?;

    // One of the two replicas leads. If that one stops, the other replica becomes the leader.
    ensure!(second.stop().await?.success());
    let after = pod_space.request_claim("after", "third", json!({})).await?;
    pod_space.belongs("third", &after).await?;
    // A replica that stops does not publish the Events that are still queued.
    for pod in ["pending", "after"] {
        pod_space
            .has_event(pod, "PVCProvisioned", "created")
            .await?;
    }
    ensure!(third.stop().await?.success());
    let _last = fixture.builder("last").start().await?;
    let last = pod_space.request_claim("last", "fourth", json!({})).await?;
    pod_space.belongs("fourth", &last).await?;
    pod_space
        .has_event("last", "PVCProvisioned", "created")
        .await?;
    let posts = |interposer: &Interposer| {
        let seen = interposer.requests();
        let posts = seen.iter().filter(|seen| seen.method == "POST");
        posts
            .filter(|seen| seen.path.contains("/persistentvolumeclaims"))
            .count()
    };
    // The claims of four pods and two canaries.
    assert_eq!(posts(&fixture.interposer) + posts(&other_interposer), 6);
    Ok(())
}

/// A leader that was paused until its Lease expired creates no claim when it resumes, for a pod
/// that was created meanwhile. The claim does not exist yet, because the POST of the next leader is
/// held.
#[tokio::test]
async fn a_leader_that_was_paused_creates_no_claim() -> Result<()> {
    let fixture = FaultFixture::new("paused").await?;
    let (pod_space, cluster) = (&fixture.pod_space, &fixture.pod_space.space.cluster);
    let first = fixture.builder("first").start().await?;
    pod_space.wait_until_processed().await?;
    let other_interposer =
        Interposer::for_service_account(cluster, "volume-warden", "volume-warden").await?;
    let held = other_interposer.add(claim_posts().hold());
    let second = fixture
        .builder("second")
        .kubeconfig(other_interposer.kubeconfig());
    let _second = second.start().await?;
    first.process().pause()?;
    let pod = pod_space.request_claim("pod", "data", json!({})).await?;
    held.held(1).await?;
    let (posts, lease_reads) = (fixture.posts(), fixture.interposer.count("GET", "/leases/"));
    first.process().resume()?;
    // Only a replica that does not lead reads the Lease. After four reads, its watch has long
    // delivered the pod.
    eventually("the resumed replica does not lead", async || {
        fixture.interposer.count("GET", "/leases/") >= lease_reads + 4
    })
    .await?;
    assert_eq!(fixture.posts(), posts);
    drop(held);
    pod_space.belongs("data", &pod).await.map(drop)
}
