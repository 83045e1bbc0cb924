//! When a process has done what there was to do.

use anyhow::{Result, ensure};
use std::time::Duration;
use volume_warden_controlplane::{Process, eventually_within};

/// So long without a change of its memory, and nothing is going on.
const CALM: Duration = Duration::from_secs(10);
/// What a look at the certificate takes, or a renewed Lease.
const BREATH: u64 = 256 * 1024;
const LIMIT: Duration = Duration::from_secs(300);

/// Its resident memory, once it is at rest.
pub async fn at_rest(process: &Process) -> Result<u64> {
    eventually_within(LIMIT, "its memory is at rest", async || {
        let before = process.memory_bytes()?;
        tokio::time::sleep(CALM).await;
        let now = process.memory_bytes()?;
        ensure!(now.abs_diff(before) <= BREATH, "{before} became {now}");
        Ok(Some(now))
    })
    .await
}
