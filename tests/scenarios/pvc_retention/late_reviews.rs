//! Checks that the webhooks answered reviews in time.

use super::support::failed_reads;
use crate::support::{self, Space};
use anyhow::Result;
use volume_warden_controlplane::Cluster;

/// The API server's counts of webhook calls that failed open.
pub async fn failed_open(cluster: &Cluster) -> Result<String> {
    support::failed_open(cluster, "pvc-retention").await
}

/// Returns whether the webhook read every set that it needed in this namespace: the log of the
/// Volume Warden that serves the cluster's webhooks reports no failed read.
pub fn all_sets_were_read(space: &Space) -> Result<bool> {
    // The log file has the default name.
    let log = std::fs::read(space.cluster.dir().join("warden.log"))?;
    Ok(failed_reads(&String::from_utf8_lossy(&log), &space.name) == 0)
}
