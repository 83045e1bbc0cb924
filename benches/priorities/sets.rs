//! The StatefulSets whose claims must be kept.

use crate::each::each;
use anyhow::{Context, Result, ensure};
use futures::TryStreamExt;
use k8s_openapi::api::{
    apps::v1::StatefulSet,
    core::v1::{PersistentVolumeClaim, Pod},
};
use kube::{
    Api, ResourceExt,
    api::{Patch, PatchParams, PostParams},
    runtime::{WatchStreamExt, watcher},
};
use serde_json::{Value, json};
use std::{
    pin::pin,
    time::{Duration, Instant},
};
use volume_warden_controlplane::{Cluster, eventually};

pub const NAMESPACE: &str = "default";

/// The result for one claim.
pub struct Outcome {
    /// The time from the response to the set's PATCH until the watch showed that the reference to
    /// the pod was removed, or that the claim was deleted.
    pub removed: Duration,
    /// Whether the claim is the same after its pod was replaced.
    pub survived: bool,
}

/// StatefulSets of two replicas each.
pub struct Sets {
    sets: Api<StatefulSet>,
    pods: Api<Pod>,
    claims: Api<PersistentVolumeClaim>,
}

fn set_name(index: usize) -> String {
    format!("set{index:02}")
}

impl Sets {
    pub fn new(cluster: &Cluster) -> Self {
        let client = cluster.client();
        Self {
            sets: Api::namespaced(client.clone(), NAMESPACE),
            pods: Api::namespaced(client.clone(), NAMESPACE),
            claims: Api::namespaced(client, NAMESPACE),
        }
    }

    /// Creates this many sets, and waits until their pods are ready.
    pub async fn fill(&self, count: usize) -> Result<()> {
        each(count, count, async |index| {
            let set = set(&set_name(index))?;
            self.sets.create(&PostParams::default(), &set).await?;
            self.is_ready(index).await
        })
        .await
        .map(drop)
    }

    async fn is_ready(&self, index: usize) -> Result<()> {
        let name = set_name(index);
        eventually(&format!("{name} has two ready pods"), async || {
            let set = self.sets.get(&name).await?;
            let status = set.status.clone().unwrap_or_default();
            let seen = status.observed_generation == set.metadata.generation;
            let pods = (status.replicas, status.ready_replicas);
            ensure!(seen && pods == (2, Some(2)), "{pods:?}");
            anyhow::Ok(())
        })
        .await
    }

    /// Scales the set down and waits until the pod, which is being deleted, owns its claim.
    pub async fn condemn(&self, index: usize) -> Result<()> {
        self.scale(index, 1).await?;
        self.claim_becomes(index, |claim| claim.is_some_and(is_owned_by_pod))
            .await?;
        self.pod_is(index, |pod| pod.metadata.deletion_timestamp.is_some())
            .await
    }

    /// Scales the set up again, and removes the finalizer of the old pod after `grace`.
    pub async fn scale_up_again(&self, index: usize, grace: Duration) -> Result<Outcome> {
        let claim = self.claims.get(&claim_name(index)).await?.uid();
        let pod = self.pods.get(&pod_name(index)).await?.uid();
        self.scale(index, 2).await?;
        let scaled = Instant::now();
        // Also ends at the deletion of the claim, if the garbage collector was faster.
        let kept = self.claim_becomes(index, |claim| {
            !claim.is_some_and(|claim| is_owned_by_pod(claim) && lives(claim))
        });
        let ended = async {
            tokio::time::sleep(grace).await;
            self.end_pod(index).await
        };
        let (removed, ()) = tokio::try_join!(kept, ended)?;
        self.pod_is(index, |found| found.uid() != pod).await?;
        self.is_ready(index).await?;
        let found = self.claims.get_opt(&claim_name(index)).await?;
        Ok(Outcome {
            removed: removed.duration_since(scaled),
            survived: found
                .filter(lives)
                .is_some_and(|found| found.uid() == claim),
        })
    }

    async fn pod_is(&self, index: usize, wanted: impl Fn(&Pod) -> bool) -> Result<()> {
        let name = pod_name(index);
        eventually(&format!("pod {name} has changed"), async || {
            let pod = self.pods.get(&name).await?;
            ensure!(wanted(&pod), "{:?}", pod.metadata);
            Ok(())
        })
        .await
    }

    async fn scale(&self, index: usize, replicas: usize) -> Result<()> {
        let patch = Patch::Merge(json!({"spec": {"replicas": replicas}}));
        let parameters = PatchParams::default();
        self.sets
            .patch(&set_name(index), &parameters, &patch)
            .await?;
        Ok(())
    }

    /// Removes the finalizer of a condemned pod.
    async fn end_pod(&self, index: usize) -> Result<()> {
        let free = Patch::Merge(json!({"metadata": {"finalizers": null}}));
        let (pod, parameters) = (pod_name(index), PatchParams::default());
        self.pods.patch(&pod, &parameters, &free).await?;
        Ok(())
    }

    /// The time at which `wanted` first returned true. Its argument is the claim in a watch event,
    /// or `None` if the claim does not exist.
    async fn claim_becomes(
        &self,
        index: usize,
        wanted: impl Fn(Option<&PersistentVolumeClaim>) -> bool,
    ) -> Result<Instant> {
        let name = claim_name(index);
        let claims = watcher::watch_object(self.claims.clone(), &name).default_backoff();
        let mut claims = pin!(claims);
        while let Some(claim) = claims.try_next().await? {
            if wanted(claim.as_ref()) {
                return Ok(Instant::now());
            }
        }
        None.context("the watch ended")
    }
}

fn pod_name(index: usize) -> String {
    format!("{}-1", set_name(index))
}

fn claim_name(index: usize) -> String {
    format!("data-{}-1", set_name(index))
}

fn lives(claim: &PersistentVolumeClaim) -> bool {
    claim.metadata.deletion_timestamp.is_none()
}

fn is_owned_by_pod(claim: &PersistentVolumeClaim) -> bool {
    let owners = claim.owner_references();
    owners.iter().any(|owner| owner.kind == "Pod")
}

/// A StatefulSet whose pods need no scheduler and whose claims need no volume.
fn set(name: &str) -> Result<StatefulSet> {
    let pod: Value = json!({
        "metadata": {"labels": {"app": name}, "finalizers": ["example.com/hold"]},
        "spec": {
            "nodeName": "node-1",
            "terminationGracePeriodSeconds": 0,
            "containers": [{"name": "main", "image": "main", "volumeMounts": [{"name": "data", "mountPath": "/data"}]}],
        },
    });
    Ok(serde_json::from_value(json!({
        "metadata": {"name": name},
        "spec": {
            "replicas": 2,
            "serviceName": name,
            "podManagementPolicy": "Parallel",
            "selector": {"matchLabels": {"app": name}},
            "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Retain", "whenScaled": "Delete"},
            "template": pod,
            "volumeClaimTemplates": [{
                "metadata": {"name": "data"},
                "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "unprovisioned", "resources": {"requests": {"storage": "1Gi"}}},
            }],
        },
    }))?)
}
