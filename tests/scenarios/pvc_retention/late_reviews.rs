//! Whether reviews were answered in time.

use super::support::unread;
use crate::support::Space;
use anyhow::Result;
use volume_warden_controlplane::Cluster;

/// The API server's counts of webhook calls that failed open.
pub async fn failed_open(cluster: &Cluster) -> Result<String> {
    let request = http::Request::get("/metrics").body(vec![])?;
    let metrics = cluster.client().request_text(request).await?;
    let of_webhook = |line: &&str| {
        line.starts_with("apiserver_admission_webhook_fail_open_count")
            && line.contains("pvc-retention")
    };
    Ok(metrics.lines().filter(of_webhook).collect())
}

/// Whether the Volume Warden that serves the cluster's webhooks could read the set of each new
/// claim of the namespace in time.
pub fn all_were_read(space: &Space) -> Result<bool> {
    // The log file has the default name.
    let log = std::fs::read(space.cluster.dir().join("warden.log"))?;
    Ok(unread(&String::from_utf8_lossy(&log), &space.name) == 0)
}
