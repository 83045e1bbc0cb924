//! Pods that ask for claims by annotation, and get volumes.

use super::support::{DEFAULT_ID, Estate, PROVISIONER};
use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, Pod};
use kube::{
    ResourceExt,
    api::{ListParams, PostParams},
};
use serde_json::json;
use std::collections::BTreeMap;
use volume_warden_controlplane::eventually;

const PREFIX: &str = "dynamic-pvc-provisioner.kubernetes.io";

/// A volume of a pod: its name, its class, its claim.
pub type Wish = (String, String, String);

/// A pod that asks for the claims of its volumes.
pub fn asking(name: &str, wishes: &[Wish], more: &[(&str, &str)]) -> Result<Pod> {
    let more = more
        .iter()
        .map(|(key, value)| (format!("{PREFIX}/{key}"), value.to_string()));
    let mut annotations = BTreeMap::from_iter(more);
    let mut volumes = vec![];
    for (volume, class, claim) in wishes {
        let template = format!(
            "apiVersion: v1\nkind: PersistentVolumeClaim\nspec:\n  storageClassName: {class}\n  accessModes: [ReadWriteOnce]\n  \
             resources:\n    requests:\n      storage: 1Gi\n"
        );
        annotations.insert(format!("{PREFIX}/{volume}.enabled"), "true".to_owned());
        annotations.insert(format!("{PREFIX}/{volume}.pvc"), template);
        volumes.push(json!({"name": volume, "persistentVolumeClaim": {"claimName": claim}}));
    }
    Ok(serde_json::from_value(json!({
        "metadata": {"name": name, "annotations": annotations},
        "spec": {"containers": [{"name": "main", "image": "main"}], "volumes": volumes},
    }))?)
}

impl Estate {
    /// Creates the pod; returns its volumes, in the order of its spec, once it runs.
    pub async fn run(&self, pod: &Pod) -> Result<Vec<PersistentVolume>> {
        let pods = &self.space.pods;
        let created = pods.create(&PostParams::default(), pod).await?;
        eventually(&format!("pod {} runs", created.name_any()), async || {
            let status = pods
                .get(&created.name_any())
                .await?
                .status
                .unwrap_or_default();
            ensure!(status.phase.as_deref() == Some("Running"), "{status:?}");
            Ok(())
        })
        .await?;
        let volumes = created.spec.clone().and_then(|spec| spec.volumes);
        let mut found = vec![];
        let claims = volumes.into_iter().flatten();
        for claim in claims.filter_map(|volume| volume.persistent_volume_claim) {
            let volume = self.volume_of(&claim.claim_name, &created).await?;
            found.push(self.space.volumes.get(&volume).await?);
        }
        Ok(found)
    }

    /// The volume of a claim that belongs to the pod.
    async fn volume_of(&self, claim: &str, pod: &Pod) -> Result<String> {
        eventually(&format!("claim {claim} belongs to its pod"), async || {
            let claim = self.space.claims.get(claim).await?;
            belongs_to(&claim, pod)?;
            anyhow::Ok(claim.spec.and_then(|spec| spec.volume_name))
        })
        .await
    }

    /// Of all pods together.
    pub async fn pods_were_reported(&self, reason: &str, times: usize) -> Result<()> {
        eventually(&format!("{reason} was reported"), async || {
            let events = self.space.events_with(reason).await?;
            ensure!(events.len() == times, "{events:?}");
            Ok(())
        })
        .await
    }

    pub async fn volume_was_reported(
        &self,
        volume: &PersistentVolume,
        reason: &str,
        times: usize,
    ) -> Result<()> {
        let fields = format!("involvedObject.name={},reason={reason}", volume.name_any());
        let about = ListParams::default().fields(&fields);
        eventually(
            &format!("{reason} was published {times} times"),
            async || {
                let events = self.events.list(&about).await?.items;
                ensure!(events.len() == times, "{events:?}");
                Ok(())
            },
        )
        .await
    }
}

/// The claim is managed, and is deleted with its pod.
fn belongs_to(claim: &PersistentVolumeClaim, pod: &Pod) -> Result<()> {
    let owners: Vec<_> = claim
        .owner_references()
        .iter()
        .map(|owner| &owner.uid)
        .collect();
    let pod = pod.metadata.uid.as_ref();
    ensure!(
        owners.len() == 1 && owners.first().copied() == pod,
        "{owners:?}, not {pod:?}"
    );
    let label = claim.labels().get(PROVISIONER).map(String::as_str);
    ensure!(label == Some(DEFAULT_ID), "{label:?}");
    Ok(())
}
