//! Changes in the caches trigger a reconcile, and live reads decide about writes. These tests show
//! which writes must not happen when a watch is late or a live read fails.

use super::{FaultFixture, pods_with_finalizer};
use crate::pvc_retention::support::{RETAIN_DELETE, RETAIN_RETAIN};
use anyhow::Result;
use volume_warden_controlplane::{Rule, eventually};

/// While the LIST of pods fails, no pod becomes the owner of a claim, and no claim is deleted
/// because it has no pod.
#[tokio::test]
async fn nothing_is_written_while_the_pods_cannot_be_listed() -> Result<()> {
    let fixture = FaultFixture::new("no-pods").await?;
    let sets = &fixture.sets;
    let _warden = fixture.start().await?;
    let web = sets
        .create_with("web", 2, RETAIN_DELETE, pods_with_finalizer())
        .await?;
    let uid = web.metadata.uid.as_deref();
    sets.claim_is_marked("data-web-1", uid).await?;
    sets.claim_is_marked("data-web-0", uid).await?;
    let writes = fixture.claim_writes();
    let broken = fixture.interposer.add(Rule::list_of("pods").respond(
        500,
        "InternalError",
        "no pods today",
    ));
    sets.scale("web", 1).await?;
    fixture.create_marked_claim("data-web-5", "web").await?;
    eventually("the LIST of pods was retried", async || broken.taken() >= 4).await?;
    assert_eq!(fixture.claim_writes(), writes);
    drop(broken);
    sets.space.claim_is_gone("data-web-5").await?;
    sets.claim_is_owned_by("data-web-1", &["Pod/web-1"]).await?;
    fixture.finish_pod_deletion("web-1").await?;
    sets.space.claim_is_gone("data-web-1").await?;
    sets.claim_is_owned_by("data-web-0", &[]).await
}

/// The watch has not delivered the deletion of a pod that was scaled down under Retain. The pod
/// must not become the owner of its claim: the garbage collector would then delete the claim.
#[tokio::test]
async fn a_deleted_pod_never_becomes_an_owner() -> Result<()> {
    let fixture = FaultFixture::new("gone-pod").await?;
    let sets = &fixture.sets;
    let _warden = fixture.start().await?;
    sets.create("web", 2, RETAIN_RETAIN).await?;
    sets.changes_are_processed().await?;
    let frozen = fixture
        .interposer
        .add(Rule::watch_of("pods").freeze_stream());
    frozen.held(1).await?;
    sets.scale("web", 1).await?;
    sets.space.pod_is_gone("web-1").await?;
    sets.set_policy("web", RETAIN_DELETE).await?;
    let uid = sets.sets.get("web").await?.metadata.uid;
    sets.claim_is_marked("data-web-0", uid.as_deref()).await?;
    sets.changes_are_processed().await?;
    assert_eq!(fixture.claim_writes_of("data-web-1"), 0);
    // The claim is not written after the watch delivers the deletion either, because it has no
    // marker.
    drop(frozen);
    fixture
        .has_event_with_text("ScaledDownUnmarked", "web", "data-web-1")
        .await?;
    assert_eq!(fixture.claim_writes_of("data-web-1"), 0);
    sets.claim_is_owned_by("data-web-1", &[]).await
}
