//! Volumes and pods that need no action.

use crate::{
    each::{AT_ONCE, each},
    gone::Watched,
    protected,
};
use anyhow::Result;
use k8s_openapi::api::core::v1::{PersistentVolume, Pod};
use kube::{
    Api, ResourceExt,
    api::{ListParams, Patch, PatchParams, PostParams},
};
use serde_json::json;
use volume_warden_controlplane::Cluster;

/// One in this many pods uses a claim.
const USERS: usize = 10;

/// Creates this many free volumes, and this many pods without annotations. Objects that need
/// protection have their finalizer.
pub async fn fill(cluster: &Cluster, namespace: &str, count: usize) -> Result<()> {
    let pods = protected::Space::new(cluster, namespace);
    pods.fill(count / USERS, count - count / USERS).await?;
    let volumes: Api<PersistentVolume> = Api::all(cluster.client());
    each(count, AT_ONCE, async |index| {
        let name = format!("free-{index:05}");
        let parameters = PostParams::default();
        volumes.create(&parameters, &volume(&name)?).await?;
        // Usually the binder sets this phase. The binder is disabled, because it would process all
        // volumes every second.
        let phase = Patch::Merge(json!({"status": {"phase": "Available"}}));
        volumes
            .patch_status(&name, &PatchParams::default(), &phase)
            .await?;
        Ok(())
    })
    .await
    .map(drop)
}

/// Adds an annotation to each object. The change needs no action.
pub async fn touch(cluster: &Cluster, namespace: &str) -> Result<()> {
    touch_all(&Api::<PersistentVolume>::all(cluster.client())).await?;
    touch_all(&Api::<Pod>::namespaced(cluster.client(), namespace)).await
}

async fn touch_all<K: Watched>(api: &Api<K>) -> Result<()> {
    let there = api.list_metadata(&ListParams::default()).await?.items;
    let names: Vec<_> = there.iter().map(ResourceExt::name_any).collect();
    let touched = Patch::Merge(json!({"metadata": {"annotations": {"touched": "yes"}}}));
    each(names.len(), AT_ONCE, async |index| {
        if let Some(name) = names.get(index) {
            let parameters = PatchParams::default();
            api.patch_metadata(name, &parameters, &touched).await?;
        }
        Ok(())
    })
    .await
    .map(drop)
}

fn volume(name: &str) -> Result<PersistentVolume> {
    Ok(serde_json::from_value(json!({
        "metadata": {"name": name, "finalizers": ["kubernetes.io/pv-protection"]},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "capacity": {"storage": "1Gi"},
            "hostPath": {"path": format!("/tmp/{name}")},
            "persistentVolumeReclaimPolicy": "Retain",
            "storageClassName": "free",
        },
    }))?)
}
