//! The control plane of a run.

use anyhow::Result;
use std::path::Path;
use volume_warden_controlplane::Cluster;

/// Controllers that would write to every claim and node of a run, on the same two cores, and that it does not need.
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
