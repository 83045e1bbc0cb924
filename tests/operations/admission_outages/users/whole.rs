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
    /// Checks that all missed work is done.
    pub async fn are_whole(&self) -> Result<()> {
        for claim in ["data", "shared", "pooled", "restored"] {
            self.space.claim_is_protected(claim).await?;
        }
        self.volumes_are_whole().await?;
        for claim in ["data-web-0", "data-web-1"] {
            self.space.claim_is_protected(claim).await?;
            self.belongs_to(claim, "StatefulSet", "web").await?;
        }
        self.belongs_to("asked", "Pod", "asking").await?;
        self.runs("asking").await?;
        self.deleted_is_gone().await
    }

    async fn volumes_are_whole(&self) -> Result<()> {
        let new = self.volume("a new volume", async || {
            let volume = self.space.volumes.get(&self.wide("new")).await;
            volume.map_err(anyhow::Error::from)
        });
        new.await?;
        self.volume("the volume of a claim", async || {
            self.volume_of("data").await
        })
        .await?;
        eventually("the pool's volume is labelled", async || {
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

    async fn volume(
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

    async fn belongs_to(&self, claim: &str, kind: &str, name: &str) -> Result<()> {
        eventually(&format!("{claim} belongs to {name}"), async || {
            let claim = self.space.claims.get(claim).await?;
            let owners = claim.owner_references();
            let expected = |owner: &OwnerReference| owner.kind == kind && owner.name == name;
            ensure!(owners.iter().any(expected), "{owners:?}");
            Ok(())
        })
        .await
    }

    /// Checks that all objects deleted during the outage are gone, except those in use.
    async fn deleted_is_gone(&self) -> Result<()> {
        let space = &self.space;
        for claim in ["unused", "brief", "brief-1", "brief-2"] {
            space.claim_is_gone(claim).await?;
        }
        space.claim_is_held("used").await?;
        space.delete_pod("user").await?;
        space.claim_is_gone("used").await?;
        for namespace in [self.wide("new"), self.wide("doomed")] {
            eventually(&format!("namespace {namespace} is gone"), async || {
                anyhow::Ok(self.namespaces.get_opt(&namespace).await?.is_none())
            })
            .await?;
        }
        self.old_volume_is_let_go().await
    }

    async fn old_volume_is_let_go(&self) -> Result<()> {
        let (volumes, name) = (&self.space.volumes, self.wide("old"));
        eventually("the old volume is released", async || {
            let volume = volumes.get(&name).await?;
            let (there, left) = (
                volume.meta().deletion_timestamp.is_some(),
                volume.finalizers(),
            );
            ensure!(there && left == [KEEPER], "{left:?}");
            Ok(())
        })
        .await?;
        let free = Patch::Merge(json!({"metadata": {"finalizers": null}}));
        volumes.patch(&name, &PatchParams::default(), &free).await?;
        Ok(())
    }
}
