//! The API server responds slowly to Volume Warden.

use super::fixture::OutageFixture;
use crate::support::{dry_run, on_node, pod, refusal, webhook_timeouts::raise_webhook_timeouts};
use anyhow::{Result, ensure};
use std::time::Duration;
use volume_warden_controlplane::{Rule, eventually};

/// Longer than the time that a webhook with the shipped timeout has for live reads.
const DELAY: Duration = Duration::from_secs(2);

/// With a longer timeoutSeconds, a webhook waits longer for live reads, up to half of that timeout:
/// it refuses a pod in spite of slow reads.
#[tokio::test]
async fn reads_are_slow() -> Result<()> {
    let fixture = OutageFixture::open("slow").await?;
    raise_webhook_timeouts(&fixture.cluster, None).await?;
    let space = &fixture.users.space;
    space.create_claim("awaited").await?;
    space.claim_is_protected("awaited").await?;
    space.create_running_pod("first", "awaited").await?;
    space.delete_claim("awaited").await?;
    let reads = Rule::on("GET").path_contains("/persistentvolumeclaims/awaited");
    let delayed = fixture.interposer.add(reads.delay(DELAY));
    eventually(
        "a pod is refused because its claim is being deleted",
        async || {
            let late = pod("late", "awaited", on_node())?;
            let refusal = refusal(space.pods.create(&dry_run(), &late).await)?;
            ensure!(refusal.contains("is being deleted"), "{refusal}");
            Ok(())
        },
    )
    .await?;
    ensure!(
        delayed.taken() > 0,
        "the pod was refused without a live read"
    );
    drop(delayed);
    space.delete_pod("first").await?;
    space.claim_is_gone("awaited").await
}
