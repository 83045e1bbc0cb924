//! A cluster that one scenario at a time uses, so that only its Volume Warden serves the webhooks.

use super::fixture::AdmissionFixture;
use crate::support::{
    BINARY, installed,
    shared::{Shared, Slot},
    webhooks_answer,
};
use anyhow::Result;
use tokio::sync::{Mutex, MutexGuard};
use volume_warden_controlplane::{Interposer, Rule, RuleHandle, Warden};

/// The path of the webhook of `pvc-retention` in the metrics.
pub const PATH: &str = "/pvc-retention/claims";

/// The cluster whose webhooks the scenarios use one after the other.
async fn cluster() -> Result<Shared> {
    static CLUSTER: Slot = Slot::new();
    CLUSTER
        .get(async || installed("retention", "manifests").await)
        .await
}

/// A namespace, the only Volume Warden of the cluster, and the interposer between that Volume
/// Warden and the API server. Other scenarios wait until this value is dropped.
pub struct OutageFixture {
    pub admission: AdmissionFixture,
    pub interposer: Interposer,
    warden: Warden,
    _guard: MutexGuard<'static, ()>,
}

impl OutageFixture {
    /// Waits until no other scenario uses the cluster, starts Volume Warden, and waits until its
    /// webhooks answer.
    pub async fn new(label: &str) -> Result<Self> {
        let fixture = Self::with_arguments(label, &[]).await?;
        webhooks_answer(&cluster().await?.client()).await?;
        Ok(fixture)
    }

    /// Waits until no other scenario uses the cluster, and starts Volume Warden with these
    /// arguments.
    pub async fn with_arguments(label: &str, arguments: &[&str]) -> Result<Self> {
        static IN_USE: Mutex<()> = Mutex::const_new(());
        // A scenario that waits holds a reference, so the cluster keeps running.
        let cluster = cluster().await?;
        let guard = IN_USE.lock().await;
        let interposer =
            Interposer::for_service_account(&cluster, "volume-warden", "volume-warden").await?;
        let builder = Warden::builder(&cluster, BINARY)
            .name(format!("warden-{label}"))
            .kubeconfig(interposer.kubeconfig())
            .arg("--leader-elect-identity=ward");
        let builder = arguments.iter().fold(builder, |all, each| all.arg(*each));
        let warden = builder.serving().start().await?;
        Ok(Self {
            admission: AdmissionFixture::new(cluster, label).await?,
            warden,
            interposer,
            _guard: guard,
        })
    }

    /// From now on until the handle is dropped, Volume Warden receives no events of StatefulSets.
    pub async fn freeze_watch_of_sets(&self) -> Result<RuleHandle> {
        let frozen = self
            .interposer
            .add(Rule::watch_of("statefulsets").freeze_stream());
        frozen.held(1).await?;
        Ok(frozen)
    }

    /// Number of reviews so far on `path` whose verdict begins with `verdict`.
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
