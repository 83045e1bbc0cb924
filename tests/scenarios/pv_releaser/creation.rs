//! The webhook labels volumes at their creation. Volumes of claims that exist for at most two
//! seconds are released, too.

use super::{
    directories::is_free,
    support::{DEFAULT_ID, LABEL, PROVISIONER, VolumeSpace, orphans},
};
use crate::support::{bare, dry_run, failed_open, guarded, volume};
use anyhow::{Result, ensure};
use futures::future::try_join_all;
use k8s_openapi::api::core::v1::PersistentVolume;
use kube::{ResourceExt, api::ListParams};
use serde_json::{Value, json};
use std::time::Duration;
use volume_warden_controlplane::{Call, Calls, eventually};

const PROTECTED: [&str; 1] = ["kubernetes.io/pv-protection"];

impl VolumeSpace {
    /// Creates a volume of the claim in a dry run. Returns it as admission changes it.
    async fn create_in_dry_run(&self, claim: &str, changes: Value) -> Result<PersistentVolume> {
        let uid = self.space.claims.get(claim).await?.metadata.uid;
        let claim_ref = json!({"namespace": self.space.name, "name": claim, "uid": uid});
        let mut wanted = json!({"spec": {"claimRef": claim_ref}});
        json_patch::merge(&mut wanted, &changes);
        let wanted = volume(&self.pv(claim), wanted)?;
        Ok(self.space.volumes.create(&dry_run(), &wanted).await?)
    }

    /// Calls [`Self::create_in_dry_run`], and repeats it only if a webhook for volumes failed open,
    /// according to the metrics of the API server.
    async fn reviewed(&self, claim: &str, changes: &Value) -> Result<PersistentVolume> {
        let cluster = &self.space.cluster;
        let created = eventually("the volume is reviewed in time", async || {
            let before = failed_open(cluster, "volumes.").await?;
            let created = self.create_in_dry_run(claim, changes.clone()).await?;
            let reviewed = created.finalizers() == PROTECTED;
            let in_time = reviewed || failed_open(cluster, "volumes.").await? == before;
            anyhow::Ok(in_time.then_some(created))
        })
        .await?;
        ensure!(
            created.finalizers() == PROTECTED,
            "{:?}",
            created.finalizers()
        );
        Ok(created)
    }
}

fn label(volume: &PersistentVolume) -> Option<&str> {
    volume.labels().get(LABEL).map(String::as_str)
}

/// PR-01..07 at admission. The volume also has the finalizer of pv-protection, although the API
/// server calls each webhook only once.
#[tokio::test]
async fn a_volume_is_labelled_at_its_creation() -> Result<()> {
    let volume_space = VolumeSpace::new(guarded().await?, "birth").await?;
    for (name, labels) in [
        ("unlabelled", json!({"app": "web"})),
        ("foreign", json!({PROVISIONER: DEFAULT_ID, LABEL: "other"})),
        ("own", json!({PROVISIONER: DEFAULT_ID})),
    ] {
        volume_space.claim(name, labels).await?;
    }
    eventually("the watch has delivered the claim", async || {
        let created = volume_space.reviewed("own", &json!({})).await?;
        anyhow::Ok(label(&created) == Some(DEFAULT_ID))
    })
    .await?;
    // The watch has now delivered the claims that were created before, too, so the first review
    // counts.
    for (claim, case, changes) in [
        (
            "own",
            "the volume has other labels",
            json!({"metadata": {"labels": {"app": "web"}}}),
        ),
        ("unlabelled", "its claim is not managed", json!({})),
        (
            "foreign",
            "one label of its claim has another id",
            json!({}),
        ),
        (
            "own",
            "its reclaim policy is Delete",
            json!({"spec": {"persistentVolumeReclaimPolicy": "Delete"}}),
        ),
        (
            "own",
            "its claimRef has no uid",
            json!({"spec": {"claimRef": {"uid": null}}}),
        ),
        (
            "own",
            "its claimRef has the uid of an earlier claim",
            json!({"spec": {"claimRef": {"uid": "earlier"}}}),
        ),
        (
            "own",
            "its label has another id",
            json!({"metadata": {"labels": {LABEL: "other"}}}),
        ),
    ] {
        let labels = &changes["metadata"]["labels"];
        let kept = labels[LABEL].as_str();
        let added = labels["app"].is_string().then_some(DEFAULT_ID);
        let created = volume_space.reviewed(claim, &changes).await?;
        ensure!(
            label(&created) == kept.or(added),
            "{case}: {:?}",
            created.labels()
        );
    }
    Ok(())
}

/// PR-20, with the webhook.
#[tokio::test]
async fn volumes_of_short_lived_claims_are_released() -> Result<()> {
    let volume_space = VolumeSpace::new(guarded().await?, "short").await?;
    short_lived_claims(&volume_space, DEFAULT_ID).await
}

/// PR-20, without the webhook.
#[tokio::test]
async fn volumes_of_short_lived_claims_are_released_without_the_webhook() -> Result<()> {
    let volume_space = VolumeSpace::new(bare().await?, "short-bare").await?;
    let warden = volume_space.warden(volume_space.id()).start().await?;
    short_lived_claims(&volume_space, volume_space.id()).await?;
    assert_eq!(orphans(&warden).await?, 0);
    Ok(())
}

/// Creates claims for which kube-controller-manager provisions volumes, and deletes each after at
/// most two seconds. Every volume that was created before its claim was deleted has to be released.
async fn short_lived_claims(volume_space: &VolumeSpace, id: &str) -> Result<()> {
    let audit = volume_space.space.cluster.audit();
    let start = audit.mark()?;
    volume_space
        .create_class(volume_space.id(), "Immediate")
        .await?;
    let times = [0, 20, 50, 100, 300, 2000].map(Duration::from_millis);
    let claims = times.iter().enumerate().map(|(index, time)| async move {
        let name = format!("short{index}");
        let labels = json!({PROVISIONER: id});
        volume_space.claim_any(&name, labels).await?;
        // This does not wait for a condition: the lifetime of the claim is the test input.
        tokio::time::sleep(*time).await;
        volume_space.space.delete_claim(&name).await
    });
    try_join_all(claims).await?;
    // kube-controller-manager began to provision the other volumes before the volume of this claim.
    volume_space
        .claim_any("last", json!({PROVISIONER: id}))
        .await?;
    eventually("the last claim is bound", async || {
        let status = volume_space.space.claims.get("last").await?.status;
        anyhow::Ok(status.and_then(|status| status.phase).as_deref() == Some("Bound"))
    })
    .await?;
    volume_space.space.delete_claim("last").await?;
    // If a claim is deleted before its volume is created, its namespace cannot be recorded. The
    // volume stays Released, and an Event reports it.
    let volumes = eventually("all volumes are free or reported", async || {
        let volumes = volume_space.volumes_of(volume_space.id()).await?;
        let mut free = 0;
        for volume in &volumes {
            let fields = format!(
                "involvedObject.name={},reason=ErrReleasePV",
                volume.name_any()
            );
            let reported = volume_space
                .events
                .list(&ListParams::default().fields(&fields))
                .await?;
            free += usize::from(is_free(volume));
            let settled = is_free(volume) || is_spare(volume) || !reported.items.is_empty();
            ensure!(settled, "{volume:?}");
        }
        ensure!(free > 0, "none is free");
        anyhow::Ok(Some(volumes))
    });
    let volumes = volumes.await?;
    let calls = audit.since(start)?;
    for volume in &volumes {
        let settled = is_free(volume) || is_spare(volume);
        let lost = !settled && is_created_before_deletion(&calls, &volume_space.space.name, volume);
        ensure!(!lost, "the volume is not released: {volume:?}");
        volume_space.delete_with_data(volume).await?;
    }
    Ok(())
}

/// Whether the API server created the volume before it deleted the claim in the claimRef.
fn is_created_before_deletion(calls: &Calls, namespace: &str, volume: &PersistentVolume) -> bool {
    let claim_ref = volume
        .spec
        .as_ref()
        .and_then(|spec| spec.claim_ref.as_ref());
    let claim = claim_ref.and_then(|claim| claim.name.as_deref());
    let created = |call: &Call| {
        (&*call.verb, &*call.resource) == ("create", "persistentvolumes")
            && call.name == volume.name_any()
    };
    let deleted = |call: &Call| {
        (&*call.verb, &*call.resource) == ("delete", "persistentvolumeclaims")
            && call.namespace == namespace
            && Some(&*call.name) == claim
    };
    let deletion = calls.iter().position(deleted);
    calls
        .iter()
        .take(deletion.unwrap_or(calls.len()))
        .any(created)
}

/// Whether the volume was created for a claim that is bound to a reserved volume instead. This
/// happens if kube-controller-manager's watch of volumes is later than that of claims. It then
/// removes the claimRef from the new volume, which was never used.
fn is_spare(volume: &PersistentVolume) -> bool {
    let spec = volume.spec.as_ref();
    let status = volume.status.as_ref();
    let available = status.and_then(|status| status.phase.as_deref()) == Some("Available");
    available && spec.is_some_and(|spec| spec.claim_ref.is_none())
}
