//! Pods that request claims by annotations, and the volumes of these claims.

use super::support::{DEFAULT_ID, PROVISIONER, VolumeSpace};
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

/// A request of a pod for a claim: the volume of the pod, the StorageClass and the claim, by name.
pub type ClaimRequest = (String, String, String);

/// A pod that requests the claims of its volumes. `extra` has further annotations, without their
/// prefix.
pub fn requesting_pod(
    name: &str,
    requests: &[ClaimRequest],
    extra: &[(&str, &str)],
) -> Result<Pod> {
    let extra = extra
        .iter()
        .map(|(key, value)| (format!("{PREFIX}/{key}"), value.to_string()));
    let mut annotations = BTreeMap::from_iter(extra);
    let mut volumes = vec![];
    for (volume, class, claim) in requests {
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

impl VolumeSpace {
    /// Creates the pod, and waits until it runs. Returns its volumes in the order of its spec.
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

    /// Waits until the pod owns the claim. Returns the name of its volume.
    async fn volume_of(&self, claim: &str, pod: &Pod) -> Result<String> {
        eventually(&format!("the pod owns claim {claim}"), async || {
            let claim = self.space.claims.get(claim).await?;
            is_owned_by(&claim, pod)?;
            anyhow::Ok(claim.spec.and_then(|spec| spec.volume_name))
        })
        .await
    }

    /// Waits until all pods of the namespace together have exactly `times` Events with this reason.
    pub async fn pods_have_events(&self, reason: &str, times: usize) -> Result<()> {
        eventually(&format!("pods have {times} Events {reason}"), async || {
            let events = self.space.events_with(reason).await?;
            ensure!(events.len() == times, "{events:?}");
            Ok(())
        })
        .await
    }

    pub async fn volume_has_events(
        &self,
        volume: &PersistentVolume,
        reason: &str,
        times: usize,
    ) -> Result<()> {
        let fields = format!("involvedObject.name={},reason={reason}", volume.name_any());
        let about = ListParams::default().fields(&fields);
        eventually(
            &format!("the volume has {times} Events {reason}"),
            async || {
                let events = self.events.list(&about).await?.items;
                ensure!(events.len() == times, "{events:?}");
                Ok(())
            },
        )
        .await
    }
}

/// Checks that the pod is the only owner of the claim, and that the claim has the managed-by label.
fn is_owned_by(claim: &PersistentVolumeClaim, pod: &Pod) -> Result<()> {
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
