//! A Volume Warden whose requests pass through an interposer.

use super::support::{LABEL, VolumeSpace};
use crate::support::{bare, shared::Shared};
use anyhow::Result;
use serde_json::json;
use std::sync::atomic::{AtomicUsize, Ordering};
use volume_warden_controlplane::{Interposer, Rule, Warden, WardenBuilder};

/// A [`VolumeSpace`], and the interposer between its Volume Warden and the API server.
pub struct FaultFixture {
    pub volume_space: VolumeSpace,
    pub interposer: Interposer,
}

impl FaultFixture {
    pub async fn new(label: &str) -> Result<Self> {
        Self::on(bare().await?, label).await
    }

    pub async fn on(cluster: Shared, label: &str) -> Result<Self> {
        let account = "volume-warden";
        Ok(Self {
            interposer: Interposer::for_service_account(&cluster, account, account).await?,
            volume_space: VolumeSpace::new(cluster, label).await?,
        })
    }

    pub fn builder(&self) -> WardenBuilder<'_> {
        let (id, kubeconfig) = (self.volume_space.id(), self.interposer.kubeconfig());
        self.volume_space.warden(id).kubeconfig(kubeconfig)
    }

    pub async fn start(&self) -> Result<Warden> {
        self.builder().start().await
    }

    /// The number of patches of the volume so far, including those that did not reach the API
    /// server.
    pub fn writes(&self, name: &str) -> usize {
        let path = format!("/api/v1/persistentvolumes/{}", self.volume_space.pv(name));
        let seen = self.interposer.requests();
        let patches = seen.iter().filter(|seen| seen.method == "PATCH");
        patches.filter(|seen| seen.path == path).count()
    }

    /// The number of patches of the volume that the API server accepted. Unlike [`Self::writes`],
    /// it does not count those that failed because another client wrote the volume first.
    pub fn accepted(&self, name: &str) -> Result<usize> {
        let (audit, pv) = (
            self.volume_space.space.cluster.audit(),
            self.volume_space.pv(name),
        );
        let calls = audit.all()?.by_user_agent("volume-warden/").writes();
        let accepted = calls
            .iter()
            .filter(|call| call.name == pv && call.code == 200);
        Ok(accepted.count())
    }

    /// Waits until Volume Warden has processed all earlier events of volumes: until it has released
    /// a volume that is created now. The class of that volume differs, so that no claim is bound to
    /// it.
    pub async fn settled(&self) -> Result<()> {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let canary = format!("canary-{}", COUNT.fetch_add(1, Ordering::Relaxed));
        let labels = json!({LABEL: self.volume_space.id()});
        let changes = json!({"metadata": {"labels": labels}, "spec": {"storageClassName": canary}});
        self.volume_space
            .create_with_deleted_claim(&canary, changes)
            .await?;
        self.volume_space.set_phase(&canary, "Released").await?;
        self.volume_space.has_no_claim(&canary).await
    }

    /// A rule for each patch of the volume.
    pub fn write_of(&self, name: &str) -> Rule {
        Rule::on("PATCH")
            .path_contains(format!("/persistentvolumes/{}", self.volume_space.pv(name)))
    }

    /// Creates a managed volume of a deleted claim, and waits until it is Released.
    pub async fn create_released(&self, name: &str) -> Result<()> {
        let labels = json!({"metadata": {"labels": {LABEL: self.volume_space.id()}}});
        self.volume_space
            .create_with_deleted_claim(name, labels)
            .await?;
        self.volume_space.has_phase(name, "Released").await
    }
}
