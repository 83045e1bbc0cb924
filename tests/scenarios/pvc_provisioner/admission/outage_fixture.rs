//! Exclusive use of a cluster's webhooks by one scenario.

use crate::{
    pvc_provisioner::support::Askers,
    support::{
        BINARY, manifests, repository,
        shared::{Shared, Slot},
        webhooks_answer,
    },
};
use anyhow::Result;
use tokio::sync::{Mutex, MutexGuard};
use volume_warden_controlplane::{Cluster, Interposer, Warden, WardenBuilder};

/// The cluster whose webhooks the scenarios use one after the other. As on OpenShift,
/// `blockOwnerDeletion` requires the permission to update the pod's finalizers (DP-29).
async fn cluster() -> Result<Shared> {
    static PROVISIONER: Slot = Slot::new();
    let start = async || {
        let plugin = "--enable-admission-plugins=OwnerReferencesPermissionEnforcement";
        let cluster = Cluster::without_in_tree()
            .name("provisioner")
            .apiserver_arg(plugin)
            .start()
            .await?;
        manifests::apply(&cluster, &repository().join("manifests")).await?;
        anyhow::Ok(cluster)
    };
    PROVISIONER.get(start).await
}

/// Locks the cluster: no other scenario uses it while the guard lives.
pub async fn turn() -> Result<(Shared, MutexGuard<'static, ()>)> {
    static TURN: Mutex<()> = Mutex::const_new(());
    let turn = TURN.lock().await;
    Ok((cluster().await?, turn))
}

/// One Volume Warden with all components, and the interposer between it and the API server.
pub struct OutageFixture {
    pub askers: Askers,
    pub interposer: Interposer,
    pub warden: Warden,
    _turn: MutexGuard<'static, ()>,
}

impl OutageFixture {
    pub async fn new(label: &'static str, arguments: &[&str]) -> Result<Self> {
        let fixture = Self::in_own_space(label, |_| {
            arguments.iter().map(|each| (*each).to_owned()).collect()
        })
        .await?;
        webhooks_answer(&fixture.askers.space.cluster.client()).await?;
        Ok(fixture)
    }

    /// `arguments` receives the namespace. Does not wait until the API server calls the webhooks.
    pub async fn in_own_space(
        label: &'static str,
        arguments: impl FnOnce(&str) -> Vec<String>,
    ) -> Result<Self> {
        let (cluster, turn) = turn().await?;
        let interposer =
            Interposer::for_service_account(&cluster, "volume-warden", "volume-warden").await?;
        let askers = Askers::new(cluster.clone(), label).await?;
        let arguments = arguments(&askers.space.name);
        let warden = builder(&cluster, label, &interposer, &arguments)
            .start()
            .await?;
        Ok(Self {
            askers,
            interposer,
            warden,
            _turn: turn,
        })
    }
}

/// Always uses the same identity, so that no start waits for a Lease to expire.
fn builder<'a>(
    cluster: &'a Cluster,
    label: &str,
    interposer: &Interposer,
    arguments: &[String],
) -> WardenBuilder<'a> {
    let builder = Warden::builder(cluster, BINARY)
        .name(format!("warden-{label}"))
        .kubeconfig(interposer.kubeconfig())
        .arg("--leader-elect-identity=ward");
    arguments
        .iter()
        .fold(builder, |all, each| all.arg(each))
        .serving()
}
