//! The control plane of a part, and Volume Warden on it.

use crate::stage::{QUIET, install};
use anyhow::Result;
use volume_warden_controlplane::{Cluster, Component, Warden, WardenBuilder};

/// Runs a part on its own control plane with the manifests applied, where pods and claims stay as
/// they were created.
pub async fn on<T>(run: impl AsyncFnOnce(&Cluster) -> Result<T>) -> Result<T> {
    let builder = Cluster::without_in_tree().name("admission").nodes(1);
    let cluster = builder.without_controllers(&QUIET).start().await?;
    install(&cluster).await?;
    cluster.pause(Component::Scheduler)?;
    cluster.pause(Component::Kwok)?;
    let outcome = run(&cluster).await;
    cluster.stop().await;
    outcome
}

/// The release binary with all components and default flags.
pub fn warden(cluster: &Cluster) -> WardenBuilder<'_> {
    Warden::builder(cluster, env!("CARGO_BIN_EXE_volume-warden")).quiet()
}
