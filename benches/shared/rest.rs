//! Waits until a process is idle.

use anyhow::{Result, ensure};
use std::time::Duration;
use volume_warden_controlplane::{Process, eventually_within};

/// A process is idle after this time without a change of its memory.
const CALM: Duration = Duration::from_secs(10);
/// Changes below this limit are ignored: a check of the certificate or a renewed Lease.
const BREATH: u64 = 256 * 1024;
const LIMIT: Duration = Duration::from_secs(300);

/// Resident memory of the idle process.
pub async fn at_rest(process: &Process) -> Result<u64> {
    eventually_within(LIMIT, "its memory is stable", async || {
        let before = process.memory_bytes()?;
        tokio::time::sleep(CALM).await;
        let now = process.memory_bytes()?;
        ensure!(now.abs_diff(before) <= BREATH, "{before} became {now}");
        Ok(Some(now))
    })
    .await
}
