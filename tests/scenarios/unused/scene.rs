//! A namespace whose claims get the condition.

use crate::support::{Space, claim, guarded, volume};
use anyhow::{Context, Result, ensure};
use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, PersistentVolumeClaimCondition};
use kube::api::{PostParams, WatchEvent, WatchParams};
use serde_json::json;
use std::sync::atomic::{AtomicUsize, Ordering};
use volume_warden_controlplane::eventually;

/// A namespace with a bound claim, `data`.
pub struct Scene(pub Space);

pub fn unused(claim: &PersistentVolumeClaim) -> Option<&PersistentVolumeClaimCondition> {
    let conditions = claim.status.as_ref()?.conditions.as_ref()?;
    conditions.iter().find(|each| each.type_ == "Unused")
}

impl Scene {
    pub async fn new(label: &str) -> Result<Self> {
        let scene = Self(Space::new(guarded().await?, label).await?);
        scene.bind("data").await?;
        Ok(scene)
    }

    /// Creates a claim, and a volume for it. Returns the version of the claim at its creation.
    pub async fn bind(&self, name: &str) -> Result<String> {
        let volume_name = format!("{}-{name}", self.0.name);
        let spec = json!({"spec": {"volumeName": volume_name, "storageClassName": ""}});
        // The volume is first: if both were new, the two workers of the binder might conflict.
        self.disk(name).await?;
        let (post, wanted) = (PostParams::default(), claim(name, spec)?);
        let created = self.0.claims.create(&post, &wanted).await?;
        created.metadata.resource_version.context("a version")
    }

    /// Creates a volume for the claim of this name.
    pub async fn disk(&self, claim: &str) -> Result<()> {
        let space = &self.0;
        let of_claim = json!({"namespace": space.name, "name": claim});
        let spec = json!({"spec": {"storageClassName": "", "claimRef": of_claim}});
        let disk = volume(&format!("{}-{claim}", space.name), spec)?;
        let volumes = &space.volumes;
        volumes.create(&PostParams::default(), &disk).await?;
        Ok(())
    }

    /// Waits until the condition of the claim has this status and reason.
    pub async fn is(&self, claim: &str, status: &str) -> Result<PersistentVolumeClaimCondition> {
        let mut found = None;
        eventually("the condition has the status", async || {
            let claim = self.0.claims.get(claim).await?;
            let condition = unused(&claim).context("no condition")?;
            ensure!(condition.status == status, "{condition:?}");
            found = Some(condition.clone());
            anyhow::Ok(())
        })
        .await?;
        let condition = found.context("a condition")?;
        let (reason, message) = match status {
            "True" => (
                "NoPodsUsingPVC",
                "No pods are currently referencing this PVC",
            ),
            _ => ("PodUsingPVC", "A pod is currently referencing this PVC"),
        };
        ensure!(condition.reason.as_deref() == Some(reason), "{condition:?}");
        ensure!(
            condition.message.as_deref() == Some(message),
            "{condition:?}"
        );
        ensure!(condition.last_transition_time.is_some(), "{condition:?}");
        Ok(condition)
    }

    /// Returns the statuses of the condition in every stored version of the claim, without
    /// repetitions of one and the same entry.
    pub async fn history(&self, claim: &str, from: &str) -> Result<Vec<String>> {
        let only = WatchParams::default().fields(&format!("metadata.name={claim}"));
        let end = self.0.claims.get(claim).await?.metadata.resource_version;
        let mut events = self.0.claims.watch(&only, from).await?.boxed();
        let mut entries: Vec<PersistentVolumeClaimCondition> = Vec::new();
        while let Some(event) = events.try_next().await? {
            let (WatchEvent::Added(claim) | WatchEvent::Modified(claim)) = event else {
                continue;
            };
            entries.extend(unused(&claim).cloned());
            if claim.metadata.resource_version == end {
                break;
            }
        }
        entries.dedup();
        Ok(entries.into_iter().map(|each| each.status).collect())
    }

    /// Waits until Volume Warden has handled all earlier changes: a claim that is bound now gets
    /// its condition, and loses it again when a pod uses it.
    pub async fn settled(&self) -> Result<()> {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let claim = format!("later-{}", COUNT.fetch_add(1, Ordering::Relaxed));
        self.bind(&claim).await?;
        self.is(&claim, "True").await?;
        let pod = format!("of-{claim}");
        self.0.create_running_pod(&pod, &claim).await?;
        self.is(&claim, "False").await?;
        self.0.delete_pod(&pod).await
    }
}
