//! The API server responds slowly to Volume Warden.

use super::fixture::OutageFixture;
use crate::support::{dry_run, on_node, patience::wait_for_webhooks, pod, refusal};
use anyhow::{Result, ensure};
use std::time::Duration;
use volume_warden_controlplane::{Rule, eventually};

/// Longer than the live reads of a guard with the shipped timeout may take.
const SLOW: Duration = Duration::from_secs(2);

/// A longer timeoutSeconds of a webhook gives it more time for live reads: half of it.
#[tokio::test]
async fn reads_are_slow() -> Result<()> {
    let fixture = OutageFixture::open("slow").await?;
    wait_for_webhooks(&fixture.cluster, None).await?;
    let space = &fixture.users.space;
    space.create_claim("awaited").await?;
    space.claim_is_protected("awaited").await?;
    space.create_running_pod("first", "awaited").await?;
    space.delete_claim("awaited").await?;
    let reads = Rule::on("GET").path_contains("/persistentvolumeclaims/awaited");
    let slow = fixture.interposer.add(reads.delay(SLOW));
    eventually(
        "a pod that uses a claim being deleted is refused",
        async || {
            let late = pod("late", "awaited", on_node())?;
            let refusal = refusal(space.pods.create(&dry_run(), &late).await)?;
            ensure!(refusal.contains("is being deleted"), "{refusal}");
            Ok(())
        },
    )
    .await?;
    ensure!(slow.taken() > 0, "it was refused without being read");
    drop(slow);
    space.delete_pod("first").await?;
    space.claim_is_gone("awaited").await
}
