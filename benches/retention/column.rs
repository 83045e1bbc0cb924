//! The programs that delete the claims.

use crate::{
    Size, calls,
    gone::all_gone,
    load,
    stage::{QUIET, install},
    turns::Turn,
};
use anyhow::Result;
use std::time::Instant;
use volume_warden_controlplane::{Cluster, ClusterBuilder, Component, Warden};

/// Disabled, because claims would wait for the protection controller, whose client has its own
/// limit.
const PROTECTION: [&str; 2] = [
    "persistentvolumeclaim-protection-controller",
    "persistentvolume-protection-controller",
];

/// One column of the table.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Column {
    /// Volume Warden, with a kube-controller-manager without client limits.
    VolumeWardenUnlimited,
    /// kube-controller-manager without client limits.
    InTreeUnlimited,
    /// Volume Warden, with a kube-controller-manager with its defaults.
    VolumeWardenDefault,
    /// kube-controller-manager with its defaults.
    InTreeDefault,
}

/// The results.
pub struct Outcome {
    /// Seconds from the resume to the deletion of the last pod.
    pub pods: f64,
    /// Seconds from the resume to the deletion of the last claim.
    pub seconds: f64,
    /// Calls from the resume until the status of all sets shows no pods.
    pub calls: calls::Counts,
}

impl Turn for Column {
    fn name(self) -> &'static str {
        match self {
            Self::VolumeWardenUnlimited => "volume-warden-unlimited",
            Self::InTreeUnlimited => "in-tree-unlimited",
            Self::VolumeWardenDefault => "volume-warden-default",
            Self::InTreeDefault => "in-tree-default",
        }
    }
}

impl Column {
    fn is_ours(self) -> bool {
        matches!(
            self,
            Self::VolumeWardenUnlimited | Self::VolumeWardenDefault
        )
    }

    fn cluster(self) -> ClusterBuilder {
        let builder = if self.is_ours() {
            Cluster::without_in_tree()
        } else {
            Cluster::in_tree()
                .without_controllers(&PROTECTION)
                .apiserver_arg("--disable-admission-plugins=StorageObjectInUseProtection")
        };
        let qps = match self {
            Self::VolumeWardenUnlimited | Self::InTreeUnlimited => Some((10_000, 10_000)),
            Self::VolumeWardenDefault | Self::InTreeDefault => None,
        };
        let builder = builder.name("retention").nodes(1);
        builder
            .without_controllers(&QUIET)
            .controller_manager_qps(qps)
    }

    /// Runs the column on its own control plane.
    pub async fn measure(self, size: Size) -> Result<Outcome> {
        let cluster = self.cluster().start().await?;
        let outcome = self.measure_on(&cluster, size).await;
        cluster.stop().await;
        outcome
    }

    async fn measure_on(self, cluster: &Cluster, size: Size) -> Result<Outcome> {
        let warden = if self.is_ours() {
            Some(start_warden(cluster).await?)
        } else {
            None
        };
        let space = load::fill(cluster, size).await?;
        if warden.is_some() {
            load::all_marked(&space).await?;
        }
        // KWOK is not needed: pods with a grace period of 0 are deleted without a kubelet.
        cluster.pause(Component::Kwok)?;
        cluster.pause(Component::ControllerManager)?;
        warden.iter().try_for_each(|it| it.process().pause())?;
        load::scale_to_zero(&space, size).await?;
        let pods = all_gone(&space.pods, size.claims()).await?;
        let claims = all_gone(&space.claims, size.claims()).await?;
        let mark = cluster.audit().mark()?;
        let started = Instant::now();
        warden.iter().try_for_each(|it| it.process().resume())?;
        cluster.resume(Component::ControllerManager)?;
        let seconds = claims.after(started).await?;
        let pods = pods.after(started).await?;
        load::all_scaled(&space, 0).await?;
        let calls = calls::count(&cluster.audit(), mark)?;
        Ok(Outcome {
            pods,
            seconds,
            calls,
        })
    }
}

async fn start_warden(cluster: &Cluster) -> Result<Warden> {
    install(cluster).await?;
    Warden::builder(cluster, env!("CARGO_BIN_EXE_volume-warden"))
        .arg("--components=pvc-retention")
        .serving()
        .quiet()
        .start()
        .await
}
