//! The watches stay open and deliver no events.

use super::fixture::OutageFixture;
use crate::support::patience::wait_for_webhooks;
use anyhow::{Result, ensure};
use volume_warden_controlplane::Rule;

/// Reviews are answered from the last delivered state, and no request is wrongly refused: not even
/// a pod of a claim that replaces one being deleted.
#[tokio::test]
async fn watches_are_stale() -> Result<()> {
    let fixture = OutageFixture::open("stale").await?;
    wait_for_webhooks(&fixture.cluster, None).await?;
    let watches = Rule::on("GET").query_contains("watch=true");
    let frozen = fixture.interposer.add(watches.freeze_stream());
    // Events in flight are delivered before the watches freeze.
    frozen.held(1).await?;
    fixture.users.renew().await?;
    fixture.users.live().await?;
    let unasked = fixture.unasked()?;
    ensure!(unasked.is_empty(), "{unasked:?}");
    drop(frozen);
    fixture.recovers().await
}
