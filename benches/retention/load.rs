//! The sets of a run.

use crate::{
    Size,
    each::{AT_ONCE, each},
};
use anyhow::{Result, ensure};
use k8s_openapi::api::{
    apps::v1::StatefulSet,
    core::v1::{PersistentVolumeClaim, Pod},
};
use kube::{
    Api, ResourceExt,
    api::{ListParams, Patch, PatchParams, PostParams},
};
use serde_json::json;
use std::time::Duration;
use volume_warden_controlplane::{Cluster, eventually_within};

const NAMESPACE: &str = "default";
const MARK: &str = "volume-warden.dev/scaled-with";
/// The time limit: a throttled kube-controller-manager needs minutes to create or delete the pods.
const LIMIT: Duration = Duration::from_secs(1200);

/// The objects of the load.
pub struct Space {
    sets: Api<StatefulSet>,
    pub pods: Api<Pod>,
    pub claims: Api<PersistentVolumeClaim>,
}

fn set_name(index: usize) -> String {
    format!("set{index:05}")
}

/// Creates the sets, and waits until all their pods are ready.
pub async fn fill(cluster: &Cluster, size: Size) -> Result<Space> {
    let client = cluster.client();
    let space = Space {
        sets: Api::namespaced(client.clone(), NAMESPACE),
        pods: Api::namespaced(client.clone(), NAMESPACE),
        claims: Api::namespaced(client, NAMESPACE),
    };
    each(size.sets, AT_ONCE, async |index| {
        let set = set(&set_name(index), size.replicas)?;
        space.sets.create(&PostParams::default(), &set).await?;
        Ok(())
    })
    .await?;
    all_scaled(&space, size.replicas).await?;
    Ok(space)
}

/// A StatefulSet whose pods need no scheduler and whose claims need no volume.
fn set(name: &str, replicas: usize) -> Result<StatefulSet> {
    Ok(serde_json::from_value(json!({
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "serviceName": name,
            "podManagementPolicy": "Parallel",
            "selector": {"matchLabels": {"app": name}},
            "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Retain", "whenScaled": "Delete"},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {
                    "nodeName": "node-1",
                    "terminationGracePeriodSeconds": 0,
                    "containers": [{"name": "main", "image": "main", "volumeMounts": [{"name": "data", "mountPath": "/data"}]}],
                },
            },
            "volumeClaimTemplates": [{
                "metadata": {"name": "data"},
                "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "unprovisioned", "resources": {"requests": {"storage": "1Gi"}}},
            }],
        },
    }))?)
}

/// Waits until the status of each set shows this many pods, all of them ready.
pub async fn all_scaled(space: &Space, replicas: usize) -> Result<()> {
    let wanted = i32::try_from(replicas)?;
    eventually_within(LIMIT, "all sets have the wanted pods", async || {
        for set in space.sets.list(&ListParams::default()).await? {
            let status = set.status.clone().unwrap_or_default();
            let ready = status.ready_replicas.unwrap_or_default();
            let seen = status.observed_generation == set.metadata.generation;
            ensure!(
                seen && status.replicas == wanted && ready == wanted,
                "{}: {ready} of {} are ready",
                set.name_any(),
                status.replicas
            );
        }
        anyhow::Ok(())
    })
    .await
}

/// Waits until Volume Warden has annotated all claims. Most are annotated at their creation.
pub async fn all_marked(space: &Space) -> Result<()> {
    eventually_within(LIMIT, "all claims are annotated", async || {
        let claims = space.claims.list_metadata(&ListParams::default()).await?;
        let bare = claims
            .iter()
            .filter(|claim| !claim.annotations().contains_key(MARK))
            .count();
        ensure!(bare == 0, "{bare} claims are not");
        anyhow::Ok(())
    })
    .await
}

pub async fn scale_to_zero(space: &Space, size: Size) -> Result<()> {
    let (parameters, none) = (PatchParams::default(), json!({"spec": {"replicas": 0}}));
    let patch = Patch::Merge(none);
    each(size.sets, AT_ONCE, async |index| {
        let name = set_name(index);
        Ok(space
            .sets
            .patch(&name, &parameters, &patch)
            .await
            .map(drop)?)
    })
    .await
    .map(drop)
}
