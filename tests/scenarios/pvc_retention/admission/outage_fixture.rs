//! Exclusive use of a cluster's webhooks by one scenario.

use super::births::Births;
use crate::support::{
    BINARY, installed,
    shared::{Shared, Slot},
    webhooks_answer,
};
use anyhow::Result;
use tokio::sync::{Mutex, MutexGuard};
use volume_warden_controlplane::{Interposer, Rule, RuleHandle, Warden};

pub const PATH: &str = "/pvc-retention/claims";

/// The cluster whose webhooks the scenarios use one after the other.
async fn cluster() -> Result<Shared> {
    static RETENTION: Slot = Slot::new();
    RETENTION
        .get(async || installed("retention", "manifests").await)
        .await
}

/// One Volume Warden with all components, and the interposer between it and the API server.
pub struct OutageFixture {
    pub births: Births,
    pub interposer: Interposer,
    warden: Warden,
    _turn: MutexGuard<'static, ()>,
}

impl OutageFixture {
    pub async fn new(label: &str) -> Result<Self> {
        let fixture = Self::with_arguments(label, &[]).await?;
        webhooks_answer(&cluster().await?.client()).await?;
        Ok(fixture)
    }

    pub async fn with_arguments(label: &str, arguments: &[&str]) -> Result<Self> {
        static TURN: Mutex<()> = Mutex::const_new(());
        let turn = TURN.lock().await;
        let cluster = cluster().await?;
        let interposer =
            Interposer::for_service_account(&cluster, "volume-warden", "volume-warden").await?;
        let builder = Warden::builder(&cluster, BINARY)
            .name(format!("warden-{label}"))
            .kubeconfig(interposer.kubeconfig())
            .arg("--leader-elect-identity=ward");
        let builder = arguments.iter().fold(builder, |all, each| all.arg(*each));
        let warden = builder.serving().start().await?;
        Ok(Self {
            births: Births::new(cluster, label).await?,
            warden,
            interposer,
            _turn: turn,
        })
    }

    pub async fn freeze_sets(&self) -> Result<RuleHandle> {
        let frozen = self
            .interposer
            .add(Rule::watch_of("statefulsets").freeze_stream());
        frozen.held(1).await?;
        Ok(frozen)
    }

    /// Number of reviews so far on `path`, with `verdict` if it is not empty.
    pub async fn reviews(&self, path: &str, verdict: &str) -> Result<u64> {
        let metrics = self.warden.metrics().await?;
        let wanted =
            format!("volume_warden_admission_reviews_total{{path=\"{path}\",verdict=\"{verdict}");
        let lines = metrics.lines().filter(|line| line.starts_with(&wanted));
        lines
            .map(|line| Ok(line.rsplit(' ').next().unwrap_or_default().parse::<u64>()?))
            .sum()
    }
}
