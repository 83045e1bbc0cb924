//! Whether reviews were answered in time.

use super::support::unread;
use crate::support::{self, Space};
use anyhow::Result;
use volume_warden_controlplane::Cluster;

/// The API server's counts of webhook calls that failed open.
pub async fn failed_open(cluster: &Cluster) -> Result<String> {
    support::failed_open(cluster, "pvc-retention").await
}

/// Whether the Volume Warden that serves the cluster's webhooks could read the set of each new
/// claim of the namespace in time.
pub fn all_were_read(space: &Space) -> Result<bool> {
    // The log file has the default name.
    let log = std::fs::read(space.cluster.dir().join("warden.log"))?;
    Ok(unread(&String::from_utf8_lossy(&log), &space.name) == 0)
}
