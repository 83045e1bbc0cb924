//! The programs that remove the finalizers.

use crate::{
    Size,
    each::each,
    protected::{Space, claim_name},
    run::{Measured, Run},
    stage::{QUIET, install},
    turns::Turn,
};
use anyhow::Result;
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use serde_json::json;
use volume_warden_controlplane::{Calls, Cluster, Component, Process, Warden};

/// Concurrent requests, as many as Volume Warden's `--max-in-flight`.
const IN_FLIGHT: usize = 32;
/// The namespace of the installation, and the name of its service account.
const INSTALLED: &str = "volume-warden";
const CONTROLLER: &str = "system:serviceaccount:kube-system:pvc-protection-controller";

/// One column of the table.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Column {
    /// A loader that only removes the finalizers.
    Limit,
    /// The same loader, with the webhooks, policies and permissions of `manifests/`, and the
    /// service account of Volume Warden.
    LimitInstalled,
    /// Volume Warden.
    VolumeWarden,
    /// kube-controller-manager without a client limit.
    InTreeUnlimited,
    /// kube-controller-manager with its defaults.
    InTreeDefault,
}

/// The results.
pub struct Outcome {
    /// Seconds from the resume to the deletion of the last claim.
    pub seconds: f64,
    /// LISTs of pods, without later pages.
    pub lists: usize,
    /// Writes of the drainer, including its Lease and Events.
    pub writes: usize,
    /// Processor time of kube-apiserver in this time, in seconds.
    pub api_server: f64,
    /// Peak memory of the drainer's process.
    pub peak_memory: Option<u64>,
}

impl Turn for Column {
    fn name(self) -> &'static str {
        match self {
            Self::Limit => "limit",
            Self::LimitInstalled => "limit-installed",
            Self::VolumeWarden => "volume-warden",
            Self::InTreeUnlimited => "in-tree-unlimited",
            Self::InTreeDefault => "in-tree-default",
        }
    }
}

impl Column {
    /// Runs the column on its own control plane.
    pub async fn measure(self, size: Size) -> Result<Outcome> {
        let builder = match self {
            Self::Limit | Self::LimitInstalled | Self::VolumeWarden => Cluster::without_in_tree(),
            Self::InTreeUnlimited => {
                Cluster::in_tree().controller_manager_qps(Some((10_000, 10_000)))
            }
            Self::InTreeDefault => Cluster::in_tree().controller_manager_qps(None),
        };
        let cluster = builder
            .name("drain")
            .nodes(1)
            .without_controllers(&QUIET)
            .start()
            .await?;
        // The pods need no kubelet, and KWOK would write to each of them.
        cluster.pause(Component::Kwok)?;
        let outcome = match self {
            Self::Limit => limit(&cluster, size).await,
            Self::LimitInstalled => limit_installed(&cluster, size).await,
            Self::VolumeWarden => volume_warden(&cluster, size).await,
            Self::InTreeUnlimited | Self::InTreeDefault => in_tree(&cluster, size).await,
        };
        cluster.stop().await;
        outcome
    }
}

async fn filled(cluster: &Cluster, size: Size) -> Result<Space> {
    let space = Space::new(cluster, "default");
    space.fill(size.claims, size.others).await?;
    Ok(space)
}

/// Deletes the claims, then the pods that use them.
async fn delete(space: &Space, size: Size) -> Result<()> {
    space.delete_claims(size.claims).await?;
    space.delete_users(size.claims).await
}

async fn limit(cluster: &Cluster, size: Size) -> Result<Outcome> {
    let space = filled(cluster, size).await?;
    remove_all(cluster, &space, &space.claims, size).await
}

async fn limit_installed(cluster: &Cluster, size: Size) -> Result<Outcome> {
    install(cluster).await?;
    let space = filled(cluster, size).await?;
    let client = cluster.service_account_client(INSTALLED, INSTALLED).await?;
    let claims = Api::namespaced(client, "default");
    remove_all(cluster, &space, &claims, size).await
}

/// Removes the finalizers through `claims`, with the permissions of its client.
async fn remove_all(
    cluster: &Cluster,
    space: &Space,
    claims: &Api<PersistentVolumeClaim>,
    size: Size,
) -> Result<Outcome> {
    delete(space, size).await?;
    let run = Run::begin(cluster, space, size).await?;
    remove_finalizers(claims, size).await?;
    let measured = run.end().await?;
    let writes = measured.calls.writes();
    Ok(Outcome {
        seconds: measured.seconds,
        lists: 0,
        writes: writes.iter().filter(|call| call.verb == "patch").count(),
        api_server: measured.api_server,
        peak_memory: None,
    })
}

async fn remove_finalizers(claims: &Api<PersistentVolumeClaim>, size: Size) -> Result<()> {
    let patch: json_patch::Patch = serde_json::from_value(json!([
        {"op": "test", "path": "/metadata/finalizers/0", "value": "kubernetes.io/pvc-protection"},
        {"op": "remove", "path": "/metadata/finalizers/0"},
    ]))?;
    let patch = &Patch::<()>::Json(patch);
    each(size.claims, IN_FLIGHT, async |index| {
        let parameters = PatchParams::default();
        claims
            .patch_metadata(&claim_name(index), &parameters, patch)
            .await?;
        Ok(())
    })
    .await
    .map(drop)
}

async fn volume_warden(cluster: &Cluster, size: Size) -> Result<Outcome> {
    install(cluster).await?;
    let warden = Warden::builder(cluster, env!("CARGO_BIN_EXE_volume-warden"))
        .quiet()
        .start()
        .await?;
    let space = filled(cluster, size).await?;
    warden.process().pause()?;
    delete(&space, size).await?;
    let run = Run::begin(cluster, &space, size).await?;
    warden.process().resume()?;
    let measured = run.end().await?;
    let calls = measured.calls.by_user_agent("volume-warden/");
    outcome(&measured, &calls, warden.process())
}

async fn in_tree(cluster: &Cluster, size: Size) -> Result<Outcome> {
    let space = filled(cluster, size).await?;
    cluster.pause(Component::ControllerManager)?;
    delete(&space, size).await?;
    let run = Run::begin(cluster, &space, size).await?;
    cluster.resume(Component::ControllerManager)?;
    let measured = run.end().await?;
    let manager = cluster.process(Component::ControllerManager)?;
    outcome(&measured, &measured.calls.by_user(CONTROLLER), &manager)
}

fn outcome(measured: &Measured, calls: &Calls, drainer: &Process) -> Result<Outcome> {
    Ok(Outcome {
        seconds: measured.seconds,
        lists: calls.lists("pods"),
        writes: calls.writes().len(),
        api_server: measured.api_server,
        peak_memory: Some(drainer.peak_memory_bytes()?),
    })
}
