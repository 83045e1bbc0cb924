//! A Volume Warden whose requests pass through an interposer.

use super::support::{Estate, LABEL};
use crate::support::{bare, shared::Shared};
use anyhow::Result;
use serde_json::json;
use std::sync::atomic::{AtomicUsize, Ordering};
use volume_warden_controlplane::{Interposer, Rule, Warden, WardenBuilder};

/// An [`Estate`], and the interposer between its Volume Warden and the API server.
pub struct FaultFixture {
    pub estate: Estate,
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
            estate: Estate::new(cluster, label).await?,
        })
    }

    pub fn builder(&self) -> WardenBuilder<'_> {
        let (id, kubeconfig) = (self.estate.id(), self.interposer.kubeconfig());
        self.estate.warden(id).kubeconfig(kubeconfig)
    }

    pub async fn start(&self) -> Result<Warden> {
        self.builder().start().await
    }

    /// The number of patches of the volume so far, including those that did not reach the API
    /// server.
    pub fn writes(&self, name: &str) -> usize {
        let path = format!("/api/v1/persistentvolumes/{}", self.estate.pv(name));
        let seen = self.interposer.requests();
        let patches = seen.iter().filter(|seen| seen.method == "PATCH");
        patches.filter(|seen| seen.path == path).count()
    }

    /// The number of patches of the volume that the API server accepted. Unlike [`Self::writes`],
    /// it does not count those that failed because another client wrote the volume first.
    pub fn accepted(&self, name: &str) -> Result<usize> {
        let (audit, pv) = (self.estate.space.cluster.audit(), self.estate.pv(name));
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
        let labels = json!({LABEL: self.estate.id()});
        let changes = json!({"metadata": {"labels": labels}, "spec": {"storageClassName": canary}});
        self.estate
            .create_with_deleted_claim(&canary, changes)
            .await?;
        self.estate.set_phase(&canary, "Released").await?;
        self.estate.has_no_claim(&canary).await
    }

    /// A rule for each patch of the volume.
    pub fn write_of(&self, name: &str) -> Rule {
        Rule::on("PATCH").path_contains(format!("/persistentvolumes/{}", self.estate.pv(name)))
    }
}
