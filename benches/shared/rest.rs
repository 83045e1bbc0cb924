//! Waits until a process is idle.

use anyhow::{Result, ensure};
use std::time::Duration;
use volume_warden_controlplane::{Process, eventually_within};

/// A process counts as idle if its memory has not changed for this time.
const CALM: Duration = Duration::from_secs(10);
/// Changes of at most this many bytes are ignored: a check of the certificate or a renewed Lease.
const BREATH: u64 = 256 * 1024;
const LIMIT: Duration = Duration::from_secs(300);

/// Waits until the process is idle, and returns its resident memory in bytes.
pub async fn at_rest(process: &Process) -> Result<u64> {
    eventually_within(LIMIT, "the memory is stable", async || {
        let before = process.memory_bytes()?;
        tokio::time::sleep(CALM).await;
        let now = process.memory_bytes()?;
        ensure!(now.abs_diff(before) <= BREATH, "{before} became {now}");
        Ok(Some(now))
    })
    .await
}
