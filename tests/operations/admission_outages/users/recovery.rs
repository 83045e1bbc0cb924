//! The state that Volume Warden restores after an outage.

use super::{Users, before::KEEPER};
use anyhow::{Context, Result, ensure};
use k8s_openapi::{
    api::core::v1::PersistentVolume, apimachinery::pkg::apis::meta::v1::OwnerReference,
};
use kube::{
    Resource, ResourceExt,
    api::{Patch, PatchParams},
};
use serde_json::json;
use volume_warden_controlplane::eventually;

impl Users {
    /// Waits until Volume Warden has done all work that it missed.
    pub async fn missed_work_is_done(&self) -> Result<()> {
        for claim in ["data", "shared", "pooled", "restored"] {
            self.space.claim_is_protected(claim).await?;
        }
        self.volumes_are_repaired().await?;
        for claim in ["data-web-0", "data-web-1"] {
            self.space.claim_is_protected(claim).await?;
            self.is_owned_by(claim, "StatefulSet", "web").await?;
        }
        self.is_owned_by("asked", "Pod", "asking").await?;
        self.pod_is_running("asking").await?;
        self.deleted_objects_are_gone().await
    }

    async fn volumes_are_repaired(&self) -> Result<()> {
        let new = self.volume_is_protected("a new volume", async || {
            let volume = self
                .space
                .volumes
                .get(&self.cluster_scoped_name("new"))
                .await;
            volume.map_err(anyhow::Error::from)
        });
        new.await?;
        self.volume_is_protected("the volume of a claim", async || {
            self.volume_of("data").await
        })
        .await?;
        eventually("the volume of the pool has its label", async || {
            let volume = self.volume_of("pooled").await?;
            let labels = volume.labels();
            ensure!(
                labels.contains_key("reclaimable-pv-releaser.kubernetes.io/managed-by"),
                "{labels:?}"
            );
            Ok(())
        })
        .await
    }

    async fn volume_is_protected(
        &self,
        what: &str,
        get: impl AsyncFn() -> Result<PersistentVolume>,
    ) -> Result<()> {
        eventually(&format!("{what} is protected"), async || {
            let volume = get().await?;
            let finalizers = volume.finalizers();
            let expected = |each: &String| each == "kubernetes.io/pv-protection";
            ensure!(finalizers.iter().any(expected), "{finalizers:?}");
            Ok(())
        })
        .await
    }

    async fn volume_of(&self, claim: &str) -> Result<PersistentVolume> {
        let spec = self.space.claims.get(claim).await?.spec;
        let volume = spec
            .and_then(|spec| spec.volume_name)
            .context("not bound")?;
        Ok(self.space.volumes.get(&volume).await?)
    }

    async fn is_owned_by(&self, claim: &str, kind: &str, name: &str) -> Result<()> {
        eventually(&format!("{claim} is owned by {name}"), async || {
            let claim = self.space.claims.get(claim).await?;
            let owners = claim.owner_references();
            let expected = |owner: &OwnerReference| owner.kind == kind && owner.name == name;
            ensure!(owners.iter().any(expected), "{owners:?}");
            Ok(())
        })
        .await
    }

    /// Waits until the objects that were deleted during the outage are gone. A claim in use stays
    /// until its pod is deleted.
    async fn deleted_objects_are_gone(&self) -> Result<()> {
        let space = &self.space;
        for claim in ["unused", "brief", "brief-1", "brief-2"] {
            space.claim_is_gone(claim).await?;
        }
        space.claim_is_held("used").await?;
        space.delete_pod("user").await?;
        space.claim_is_gone("used").await?;
        for namespace in [
            self.cluster_scoped_name("new"),
            self.cluster_scoped_name("doomed"),
        ] {
            eventually(&format!("namespace {namespace} is gone"), async || {
                anyhow::Ok(self.namespaces.get_opt(&namespace).await?.is_none())
            })
            .await?;
        }
        self.old_volume_is_unprotected().await
    }

    async fn old_volume_is_unprotected(&self) -> Result<()> {
        let (volumes, name) = (&self.space.volumes, self.cluster_scoped_name("old"));
        eventually("the finalizer of the old volume is removed", async || {
            let volume = volumes.get(&name).await?;
            let (is_terminating, finalizers) = (
                volume.meta().deletion_timestamp.is_some(),
                volume.finalizers(),
            );
            ensure!(is_terminating && finalizers == [KEEPER], "{finalizers:?}");
            Ok(())
        })
        .await?;
        let no_finalizers = Patch::Merge(json!({"metadata": {"finalizers": null}}));
        volumes
            .patch(&name, &PatchParams::default(), &no_finalizers)
            .await?;
        Ok(())
    }
}
