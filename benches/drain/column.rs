//! Who drains.

use crate::{Size, load};
use anyhow::Result;
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use serde_json::json;
use std::{path::Path, time::Instant};
use volume_warden_controlplane::{Calls, Cluster, Component, Warden};

/// As many as Volume Warden's `--max-in-flight`.
const IN_FLIGHT: usize = 32;
const CONTROLLER: &str = "system:serviceaccount:kube-system:pvc-protection-controller";
/// They would write to every claim and node of the run, on the same two cores; no column needs them.
const QUIET: [&str; 3] = [
    "node-lifecycle-controller",
    "taint-eviction-controller",
    "persistentvolume-binder-controller",
];

/// One column of the table.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Column {
    /// Only removes the finalizers.
    Limit,
    /// Volume Warden.
    Ours,
    /// kube-controller-manager whose client is not throttled.
    InTreeUnlimited,
    /// kube-controller-manager as it comes.
    InTreeDefault,
}

/// What was measured.
pub struct Outcome {
    /// From the resume to the last claim's end.
    pub seconds: f64,
    /// LISTs of pods, later pages not counted.
    pub lists: usize,
    /// Writes of the drainer, its Lease and events included.
    pub writes: usize,
    /// Of the drainer's process, over its whole life.
    pub peak_memory: Option<u64>,
}

impl Column {
    pub fn name(self) -> &'static str {
        match self {
            Self::Limit => "limit",
            Self::Ours => "volume-warden",
            Self::InTreeUnlimited => "in-tree-unlimited",
            Self::InTreeDefault => "in-tree-default",
        }
    }

    /// On a control plane of its own.
    pub async fn measure(self, size: Size) -> Result<Outcome> {
        let builder = match self {
            Self::Limit | Self::Ours => Cluster::ours(),
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
        // Pods need no kubelet here, and KWOK would write to each of them.
        cluster.pause(Component::Kwok)?;
        let outcome = match self {
            Self::Limit => limit(&cluster, size).await,
            Self::Ours => ours(&cluster, size).await,
            Self::InTreeUnlimited | Self::InTreeDefault => in_tree(&cluster, size).await,
        };
        cluster.stop().await;
        outcome
    }
}

async fn limit(cluster: &Cluster, size: Size) -> Result<Outcome> {
    let space = load::fill(cluster, size).await?;
    load::delete(&space, size).await?;
    let mark = cluster.audit().mark()?;
    let gone = load::all_gone(&space, size).await?;
    let started = Instant::now();
    remove_finalizers(&space.claims, size).await?;
    let seconds = gone.after(started).await?;
    let calls = cluster.audit().since(mark)?;
    Ok(Outcome {
        seconds,
        lists: 0,
        writes: calls
            .writes()
            .iter()
            .filter(|call| call.verb == "patch")
            .count(),
        peak_memory: None,
    })
}

async fn remove_finalizers(claims: &Api<PersistentVolumeClaim>, size: Size) -> Result<()> {
    let patch: json_patch::Patch = serde_json::from_value(json!([
        {"op": "test", "path": "/metadata/finalizers/0", "value": "kubernetes.io/pvc-protection"},
        {"op": "remove", "path": "/metadata/finalizers/0"},
    ]))?;
    let patch = &Patch::<()>::Json(patch);
    stream::iter(0..size.claims)
        .map(|index| async move {
            claims
                .patch_metadata(&load::claim_name(index), &PatchParams::default(), patch)
                .await
                .map(drop)
        })
        .buffer_unordered(IN_FLIGHT)
        .try_collect::<()>()
        .await?;
    Ok(())
}

async fn ours(cluster: &Cluster, size: Size) -> Result<Outcome> {
    cluster
        .apply_kustomization(Path::new(env!("CARGO_MANIFEST_DIR")).join("manifests"))
        .await?;
    let warden = Warden::builder(cluster, env!("CARGO_BIN_EXE_volume-warden"))
        .quiet()
        .start()
        .await?;
    let space = load::fill(cluster, size).await?;
    warden.process().pause()?;
    load::delete(&space, size).await?;
    let mark = cluster.audit().mark()?;
    let gone = load::all_gone(&space, size).await?;
    let started = Instant::now();
    warden.process().resume()?;
    let seconds = gone.after(started).await?;
    let calls = cluster.audit().since(mark)?.by_user_agent("volume-warden/");
    outcome(seconds, &calls, warden.process().peak_memory_bytes()?)
}

async fn in_tree(cluster: &Cluster, size: Size) -> Result<Outcome> {
    let space = load::fill(cluster, size).await?;
    cluster.pause(Component::ControllerManager)?;
    load::delete(&space, size).await?;
    let mark = cluster.audit().mark()?;
    let gone = load::all_gone(&space, size).await?;
    let started = Instant::now();
    cluster.resume(Component::ControllerManager)?;
    let seconds = gone.after(started).await?;
    let calls = cluster.audit().since(mark)?.by_user(CONTROLLER);
    outcome(
        seconds,
        &calls,
        cluster
            .process(Component::ControllerManager)?
            .peak_memory_bytes()?,
    )
}

fn outcome(seconds: f64, calls: &Calls, peak_memory: u64) -> Result<Outcome> {
    Ok(Outcome {
        seconds,
        lists: calls.lists("pods"),
        writes: calls.writes().len(),
        peak_memory: Some(peak_memory),
    })
}
