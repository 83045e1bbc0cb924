//! A cluster whose webhooks only one scenario at a time uses.

use crate::{
    pvc_provisioner::support::PodSpace,
    support::{
        BINARY, manifests, repository,
        shared::{Shared, Slot},
        webhooks_answer,
    },
};
use anyhow::Result;
use tokio::sync::{Mutex, MutexGuard};
use volume_warden_controlplane::{Cluster, Interposer, Warden, WardenBuilder};

/// The cluster of these scenarios. As on OpenShift, setting `blockOwnerDeletion` requires the
/// permission to update the finalizers of the owner (DP-29).
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

/// Locks the cluster: no other scenario uses it until the guard is dropped.
pub async fn lock_cluster() -> Result<(Shared, MutexGuard<'static, ()>)> {
    static LOCK: Mutex<()> = Mutex::const_new(());
    // A scenario that waits holds a reference, so the cluster keeps running.
    let cluster = cluster().await?;
    Ok((cluster, LOCK.lock().await))
}

/// One Volume Warden with all components in the locked cluster, the interposer between it and the
/// API server, and the namespace of the test.
pub struct OutageFixture {
    pub pod_space: PodSpace,
    pub interposer: Interposer,
    pub warden: Warden,
    _lock: MutexGuard<'static, ()>,
}

impl OutageFixture {
    /// Starts Volume Warden, and waits until the API server calls its webhooks.
    pub async fn new(label: &'static str, arguments: &[&str]) -> Result<Self> {
        let fixture = Self::new_without_waiting(label, |_| {
            arguments
                .iter()
                .map(|argument| (*argument).to_owned())
                .collect()
        })
        .await?;
        webhooks_answer(&fixture.pod_space.space.cluster.client()).await?;
        Ok(fixture)
    }

    /// Starts Volume Warden with the arguments that `arguments` returns for the namespace of the
    /// test. Does not wait until the API server calls the webhooks.
    pub async fn new_without_waiting(
        label: &'static str,
        arguments: impl FnOnce(&str) -> Vec<String>,
    ) -> Result<Self> {
        let (cluster, guard) = lock_cluster().await?;
        let interposer =
            Interposer::for_service_account(&cluster, "volume-warden", "volume-warden").await?;
        let pod_space = PodSpace::new(cluster.clone(), label).await?;
        let arguments = arguments(&pod_space.space.name);
        let warden = builder(&cluster, label, &interposer, &arguments)
            .start()
            .await?;
        Ok(Self {
            pod_space,
            interposer,
            warden,
            _lock: guard,
        })
    }
}

/// Builds a Volume Warden that always has the same Lease identity, so that it does not wait until
/// the Lease of an earlier one expires.
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
        .fold(builder, |builder, argument| builder.arg(argument))
        .serving()
}
