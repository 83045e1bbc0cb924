//! A cluster's webhooks for one scenario alone.

use crate::{
    pvc_provisioner::support::Askers,
    support::{BINARY, repository, webhooks_answer},
};
use anyhow::Result;
use tokio::sync::{Mutex, MutexGuard, OnceCell};
use volume_warden_controlplane::{Cluster, Interposer, Warden, WardenBuilder};

/// The cluster whose webhooks one scenario after the other has to itself. As on OpenShift, only who may change the finalizers of a pod
/// may make its deletion wait (DP-29).
async fn cluster() -> Result<&'static Cluster> {
    static PROVISIONER: OnceCell<Cluster> = OnceCell::const_new();
    let start = || async {
        let plugin = "--enable-admission-plugins=OwnerReferencesPermissionEnforcement";
        let cluster = Cluster::ours()
            .name("provisioner")
            .apiserver_arg(plugin)
            .start()
            .await?;
        cluster
            .apply_kustomization(repository().join("manifests"))
            .await?;
        anyhow::Ok(cluster)
    };
    PROVISIONER.get_or_try_init(start).await
}

/// The cluster, and nobody else uses it for as long as the guard lives.
pub async fn turn() -> Result<(&'static Cluster, MutexGuard<'static, ()>)> {
    static TURN: Mutex<()> = Mutex::const_new(());
    let turn = TURN.lock().await;
    Ok((cluster().await?, turn))
}

/// One Volume Warden with all components, and what lies between it and the API server.
pub struct Ward {
    pub askers: Askers,
    pub between: Interposer,
    pub warden: Warden,
    label: &'static str,
    arguments: Vec<String>,
    _turn: MutexGuard<'static, ()>,
}

impl Ward {
    pub async fn new(label: &'static str, arguments: &[&str]) -> Result<Self> {
        let ward = Self::in_own_space(label, |_| {
            arguments.iter().map(|each| (*each).to_owned()).collect()
        })
        .await?;
        webhooks_answer(&ward.askers.space.cluster.client()).await?;
        Ok(ward)
    }

    /// The arguments may depend on the namespace. Returns without a sign that the API server has heard of the webhooks.
    pub async fn in_own_space(
        label: &'static str,
        arguments: impl FnOnce(&str) -> Vec<String>,
    ) -> Result<Self> {
        let (cluster, turn) = turn().await?;
        let account = cluster.service_account_kubeconfig("volume-warden", "volume-warden", None);
        let between = Interposer::start(cluster, account.await?)?;
        let askers = Askers::new(cluster, label).await?;
        let arguments = arguments(&askers.space.name);
        let warden = builder(cluster, label, &between, &arguments)
            .start()
            .await?;
        Ok(Self {
            askers,
            between,
            warden,
            label,
            arguments,
            _turn: turn,
        })
    }

    /// The same once more, after this one was killed.
    pub async fn again(&mut self) -> Result<()> {
        let cluster = self.askers.space.cluster;
        self.warden = builder(cluster, self.label, &self.between, &self.arguments)
            .start()
            .await?;
        Ok(())
    }
}

/// Always of one identity, so that no start has to wait for a Lease to expire.
fn builder<'a>(
    cluster: &'a Cluster,
    label: &str,
    between: &Interposer,
    arguments: &[String],
) -> WardenBuilder<'a> {
    let builder = Warden::builder(cluster, BINARY)
        .name(format!("warden-{label}"))
        .kubeconfig(between.kubeconfig())
        .arg("--leader-elect-identity=ward");
    arguments
        .iter()
        .fold(builder, |all, each| all.arg(each))
        .serving()
}
