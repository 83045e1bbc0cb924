//! The watches stay open and deliver no events.

use super::fixture::OutageFixture;
use anyhow::{Result, ensure};
use volume_warden_controlplane::Rule;

/// Volume Warden answers reviews from the state that its watches last delivered, and refuses no
/// request of users: not even a pod whose claim replaces one that was being deleted.
#[tokio::test]
async fn watches_are_stale() -> Result<()> {
    let fixture = OutageFixture::with_longest_timeouts("stale", None).await?;
    let watches = Rule::on("GET").query_contains("watch=true");
    let frozen = fixture.interposer.add(watches.freeze_stream());
    // Events in flight are delivered before the watches freeze.
    frozen.held(1).await?;
    fixture.users.recreate_claim().await?;
    fixture.users.perform_all_operations().await?;
    let failed_open = fixture.failed_open()?;
    ensure!(failed_open.is_empty(), "{failed_open:?}");
    drop(frozen);
    fixture.recovers().await
}
