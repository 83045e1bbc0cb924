//! The watches are open and say nothing.

use super::ward::Ward;
use crate::support::patience::wait_for_webhooks;
use anyhow::{Result, ensure};
use volume_warden_controlplane::Rule;

/// Reviews are answered from what was reported last, and no client is refused anything for it: not the claim that came after one which was
/// being deleted.
#[tokio::test]
async fn its_feeds_are_stale() -> Result<()> {
    let ward = Ward::open("stale").await?;
    wait_for_webhooks(ward.cluster, None).await?;
    let watches = Rule::on("GET").query_contains("watch=true");
    let frozen = ward.between.add(watches.freeze_stream());
    // Whatever was under way at the moment is reported before.
    frozen.held(1).await?;
    ward.users.renew().await?;
    ward.users.live().await?;
    let unasked = ward.unasked()?;
    ensure!(unasked.is_empty(), "{unasked:?}");
    drop(frozen);
    ward.recovers().await
}
