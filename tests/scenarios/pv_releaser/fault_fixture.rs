//! A Volume Warden behind an interposer.

use super::support::{Estate, LABEL};
use crate::support::{bare, shared::Shared};
use anyhow::Result;
use serde_json::json;
use std::sync::atomic::{AtomicUsize, Ordering};
use volume_warden_controlplane::{Interposer, Rule, Warden, WardenBuilder};

/// An estate, and what lies between its Volume Warden and the API server.
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
        let (id, through) = (self.estate.id(), self.interposer.kubeconfig());
        self.estate.warden(id).kubeconfig(through)
    }

    pub async fn start(&self) -> Result<Warden> {
        self.builder().start().await
    }

    /// Patches of the volume so far, also those that never arrived.
    pub fn writes(&self, name: &str) -> usize {
        let path = format!("/api/v1/persistentvolumes/{}", self.estate.pv(name));
        let seen = self.interposer.requests();
        let patches = seen.iter().filter(|seen| seen.method == "PATCH");
        patches.filter(|seen| seen.path == path).count()
    }

    /// How many patches of the volume the API server took. Where others write too, the first try
    /// may have been in vain.
    pub fn accepted(&self, name: &str) -> Result<usize> {
        let (audit, pv) = (self.estate.space.cluster.audit(), self.estate.pv(name));
        let calls = audit.all()?.by_user_agent("volume-warden/").writes();
        let accepted = calls
            .iter()
            .filter(|call| call.name == pv && call.code == 200);
        Ok(accepted.count())
    }

    /// Volume Warden has worked off whatever it knew of volumes before: one that came afterwards
    /// was released. No claim can take it.
    pub async fn settled(&self) -> Result<()> {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let canary = format!("canary-{}", COUNT.fetch_add(1, Ordering::Relaxed));
        let labels = json!({LABEL: self.estate.id()});
        let nobodys = json!({"metadata": {"labels": labels}, "spec": {"storageClassName": canary}});
        self.estate.create_abandoned(&canary, nobodys).await?;
        self.estate.turn(&canary, "Released").await?;
        self.estate.is_disclaimed(&canary).await
    }

    /// Every write of the volume.
    pub fn write_of(&self, name: &str) -> Rule {
        Rule::on("PATCH").path_contains(format!("/persistentvolumes/{}", self.estate.pv(name)))
    }
}
