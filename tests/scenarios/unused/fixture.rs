//! A namespace whose claims get the condition.

use crate::support::{Space, claim, guarded, volume};
use anyhow::{Context, Result, bail, ensure};
use futures::{StreamExt, TryStreamExt, stream::BoxStream};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, PersistentVolumeClaimCondition};
use kube::api::{PostParams, WatchEvent, WatchParams};
use serde_json::json;
use std::sync::atomic::{AtomicUsize, Ordering};
use volume_warden_controlplane::eventually;

/// The events of a watch of one claim.
pub type Versions = BoxStream<'static, kube::Result<WatchEvent<PersistentVolumeClaim>>>;

/// A namespace with a bound claim, `data`.
pub struct Fixture(pub Space);

pub fn unused_condition(claim: &PersistentVolumeClaim) -> Option<&PersistentVolumeClaimCondition> {
    let conditions = claim.status.as_ref()?.conditions.as_ref()?;
    conditions.iter().find(|each| each.type_ == "Unused")
}

impl Fixture {
    pub async fn new(label: &str) -> Result<Self> {
        let fixture = Self(Space::new(guarded().await?, label).await?);
        fixture.bind("data").await?;
        Ok(fixture)
    }

    /// Creates a claim, and a volume for it. Returns the resourceVersion of the claim at its
    /// creation.
    pub async fn bind(&self, name: &str) -> Result<String> {
        let volume_name = format!("{}-{name}", self.0.name);
        let spec = json!({"spec": {"volumeName": volume_name, "storageClassName": ""}});
        // Creates the volume first: if both were new, the two workers of the binder might conflict.
        self.create_volume(name).await?;
        let (post, wanted) = (PostParams::default(), claim(name, spec)?);
        let created = self.0.claims.create(&post, &wanted).await?;
        created.metadata.resource_version.context("a version")
    }

    /// Creates a volume for the claim of this name.
    pub async fn create_volume(&self, claim: &str) -> Result<()> {
        let space = &self.0;
        let of_claim = json!({"namespace": space.name, "name": claim});
        let spec = json!({"spec": {"storageClassName": "", "claimRef": of_claim}});
        let volume = volume(&format!("{}-{claim}", space.name), spec)?;
        let volumes = &space.volumes;
        volumes.create(&PostParams::default(), &volume).await?;
        Ok(())
    }

    /// Waits until the condition of the claim has this status, and checks that reason and message
    /// match it.
    pub async fn has_status(
        &self,
        claim: &str,
        status: &str,
    ) -> Result<PersistentVolumeClaimCondition> {
        let mut found = None;
        eventually("the condition has the status", async || {
            let claim = self.0.claims.get(claim).await?;
            let condition = unused_condition(&claim).context("no condition")?;
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

    /// Begins a watch of the claim from this resourceVersion. The API server keeps old versions for
    /// little more than a minute, so the watch must begin soon after that version.
    pub async fn watch(&self, claim: &str, from: &str) -> Result<Versions> {
        let only = WatchParams::default().fields(&format!("metadata.name={claim}"));
        Ok(self.0.claims.watch(&only, from).await?.boxed())
    }

    /// Returns the statuses of the condition in every version of the claim that the watch delivers
    /// up to the current one. Consecutive identical conditions count once.
    pub async fn history(&self, claim: &str, mut versions: Versions) -> Result<Vec<String>> {
        let end = self.0.claims.get(claim).await?.metadata.resource_version;
        let mut entries: Vec<PersistentVolumeClaimCondition> = Vec::new();
        loop {
            match versions.try_next().await?.context("the watch has ended")? {
                WatchEvent::Added(claim) | WatchEvent::Modified(claim) => {
                    entries.extend(unused_condition(&claim).cloned());
                    if claim.metadata.resource_version == end {
                        break;
                    }
                }
                WatchEvent::Error(error) => bail!("{error:?}"),
                WatchEvent::Deleted(_) | WatchEvent::Bookmark(_) => {}
            }
        }
        entries.dedup();
        Ok(entries.into_iter().map(|each| each.status).collect())
    }

    /// Waits until Volume Warden has handled all earlier changes: a new bound claim gets its
    /// condition, and the condition changes when a pod uses the claim.
    pub async fn settled(&self) -> Result<()> {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let claim = format!("later-{}", COUNT.fetch_add(1, Ordering::Relaxed));
        self.bind(&claim).await?;
        self.has_status(&claim, "True").await?;
        let pod = format!("of-{claim}");
        self.0.create_running_pod(&pod, &claim).await?;
        self.has_status(&claim, "False").await?;
        self.0.delete_pod(&pod).await
    }
}
