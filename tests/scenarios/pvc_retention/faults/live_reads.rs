//! Caches trigger, live reads decide: writes that must not happen when a watch is late or a live
//! read fails.

use super::{FaultFixture, held_pods};
use crate::pvc_retention::support::{RETAIN_DELETE, RETAIN_RETAIN};
use anyhow::Result;
use volume_warden_controlplane::{Rule, eventually};

/// Without the live pods no pod becomes an owner, and no claim counts as one without a pod.
#[tokio::test]
async fn nothing_is_decided_by_pods_that_cannot_be_read() -> Result<()> {
    let fixture = FaultFixture::new("no-pods").await?;
    let sets = &fixture.sets;
    let _warden = fixture.start().await?;
    let web = sets
        .create_with("web", 2, RETAIN_DELETE, held_pods())
        .await?;
    let mark = web.metadata.uid.as_deref();
    sets.claim_is_marked("data-web-1", mark).await?;
    sets.claim_is_marked("data-web-0", mark).await?;
    let writes = fixture.claim_writes();
    let broken = fixture.interposer.add(Rule::list_of("pods").respond(
        500,
        "InternalError",
        "no pods today",
    ));
    sets.scale("web", 1).await?;
    fixture.create_marked_claim("data-web-5", "web").await?;
    eventually("the reads were retried", async || broken.taken() >= 4).await?;
    assert_eq!(fixture.claim_writes(), writes);
    drop(broken);
    sets.space.claim_is_gone("data-web-5").await?;
    sets.claim_is_owned_by("data-web-1", &["Pod/web-1"]).await?;
    fixture.free("web-1").await?;
    sets.space.claim_is_gone("data-web-1").await?;
    sets.claim_is_owned_by("data-web-0", &[]).await
}

/// The watch has not delivered the deletion of a pod: with that pod as owner, the garbage
/// collector would delete a claim to retain.
#[tokio::test]
async fn a_deleted_pod_never_becomes_an_owner() -> Result<()> {
    let fixture = FaultFixture::new("gone-pod").await?;
    let sets = &fixture.sets;
    let _warden = fixture.start().await?;
    sets.create("web", 2, RETAIN_RETAIN).await?;
    sets.settled().await?;
    let frozen = fixture
        .interposer
        .add(Rule::watch_of("pods").freeze_stream());
    frozen.held(1).await?;
    sets.scale("web", 1).await?;
    sets.space.pod_is_gone("web-1").await?;
    sets.set_policy("web", RETAIN_DELETE).await?;
    let mark = sets.sets.get("web").await?.metadata.uid;
    sets.claim_is_marked("data-web-0", mark.as_deref()).await?;
    sets.settled().await?;
    assert_eq!(fixture.claim_writes_of("data-web-1"), 0);
    // Not even when the watch catches up, because the claim has no mark.
    drop(frozen);
    fixture
        .event_says("ScaledDownUnmarked", "web", "data-web-1")
        .await?;
    assert_eq!(fixture.claim_writes_of("data-web-1"), 0);
    sets.claim_is_owned_by("data-web-1", &[]).await
}
