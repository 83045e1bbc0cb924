//! The control plane of a run.

use anyhow::Result;
use std::path::Path;
use volume_warden_controlplane::Cluster;

/// Controllers that a run does not need, and that would write to each of its claims and nodes on
/// the same two cores.
pub const QUIET: [&str; 3] = [
    "node-lifecycle-controller",
    "taint-eviction-controller",
    "persistentvolume-binder-controller",
];

/// Applies `manifests/`.
pub async fn install(cluster: &Cluster) -> Result<()> {
    let manifests = Path::new(env!("CARGO_MANIFEST_DIR")).join("manifests");
    cluster.apply_kustomization(manifests).await.map(drop)
}
