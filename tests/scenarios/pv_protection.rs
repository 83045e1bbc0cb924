//! The finalizer of volumes, from creation to deletion, on the real control plane. Test cases PV-*,
//! from the tests of Kubernetes.

use crate::support::{Space, claim, dry_run, guarded, volume};
use anyhow::{Result, ensure};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use volume_warden_controlplane::eventually;

const PROTECTION: &str = "kubernetes.io/pv-protection";

/// The user of the controller that binds volumes to claims.
const BINDER: &str = "system:serviceaccount:kube-system:persistent-volume-binder";

/// A finalizer of another client. It keeps a volume after Volume Warden has removed its own.
const FOREIGN: &str = "example.com/hold";

/// A namespace, and the names of a volume and a claim that can be bound to each other. Volumes have
/// no namespace, so the name of the volume contains it.
struct Pair {
    space: Space,
    volume: String,
}

impl Pair {
    async fn new(label: &str) -> Result<Self> {
        let space = Space::new(guarded().await?, label).await?;
        let volume = format!("pv-{}", space.name);
        Ok(Self { space, volume })
    }

    /// Creates the volume with a class of its own, so that no claim of another scenario is bound to
    /// it.
    async fn create_volume(&self, changes: Value) -> Result<()> {
        let mut changes = changes;
        json_patch::merge(
            &mut changes,
            &json!({"spec": {"storageClassName": self.space.name}}),
        );
        self.space
            .volumes
            .create(&PostParams::default(), &volume(&self.volume, changes)?)
            .await?;
        Ok(())
    }

    /// Creates a claim that names the volume.
    async fn create_claim(&self) -> Result<()> {
        let changes =
            json!({"spec": {"volumeName": self.volume, "storageClassName": self.space.name}});
        self.space
            .claims
            .create(&PostParams::default(), &claim("data", changes)?)
            .await?;
        Ok(())
    }

    async fn delete_volume(&self) -> Result<()> {
        self.space
            .volumes
            .delete(&self.volume, &DeleteParams::default())
            .await?;
        Ok(())
    }

    async fn patch_volume(&self, patch: Value) -> Result<()> {
        self.space
            .volumes
            .patch(&self.volume, &PatchParams::default(), &Patch::Merge(&patch))
            .await?;
        Ok(())
    }

    async fn volume_finalizers(&self) -> Result<Vec<String>> {
        Ok(self
            .space
            .volumes
            .get(&self.volume)
            .await?
            .metadata
            .finalizers
            .unwrap_or_default())
    }

    /// Waits until both are Bound, and the volume is bound to this claim by its uid.
    async fn is_bound(&self) -> Result<()> {
        eventually("claim and volume are Bound", async || {
            let volume = self.space.volumes.get(&self.volume).await?;
            let claim = self.space.claims.get("data").await?;
            let reference = volume.spec.and_then(|spec| spec.claim_ref);
            let uid = reference.and_then(|reference| reference.uid);
            let phase = volume.status.and_then(|status| status.phase);
            ensure!(phase.as_deref() == Some("Bound"), "{phase:?}");
            let phase = claim.status.and_then(|status| status.phase);
            ensure!(phase.as_deref() == Some("Bound"), "{phase:?}");
            ensure!(uid.is_some() && uid == claim.metadata.uid, "{uid:?}");
            Ok(())
        })
        .await
    }

    async fn volume_has_finalizers(&self, expected: &[&str]) -> Result<()> {
        eventually("the volume has the expected finalizers", async || {
            let finalizers = self.volume_finalizers().await?;
            ensure!(finalizers == expected, "{finalizers:?}");
            Ok(())
        })
        .await
    }

    async fn volume_is_gone(&self) -> Result<()> {
        eventually("the volume is deleted", async || {
            let found = self.space.volumes.get_opt(&self.volume).await?;
            ensure!(
                found.is_none(),
                "{:?}",
                found.map(|volume| (volume.metadata, volume.status))
            );
            Ok(())
        })
        .await
    }

    /// Waits until Volume Warden has processed all earlier events: until a volume that is created
    /// and deleted now is gone.
    async fn settle(&self) -> Result<()> {
        let canary = Self {
            space: Space::new(self.space.cluster.clone(), "canary").await?,
            volume: format!("canary-{}", self.volume),
        };
        canary.create_volume(json!({})).await?;
        canary.delete_volume().await?;
        canary.volume_is_gone().await
    }
}

/// PV-07, PV-08: admission adds the finalizer to a new volume that does not have it.
#[tokio::test]
async fn admission_appends_the_finalizer_once() -> Result<()> {
    let pair = Pair::new("pv-admit").await?;
    for (before, after) in [
        (json!(null), vec![PROTECTION]),
        (json!([FOREIGN]), vec![FOREIGN, PROTECTION]),
        (json!([PROTECTION, FOREIGN]), vec![PROTECTION, FOREIGN]),
    ] {
        let wanted = volume(&pair.volume, json!({"metadata": {"finalizers": before}}))?;
        // On a busy machine the webhook may time out. The volume is then admitted unchanged.
        eventually("the webhook answers in time", async || {
            let created = pair.space.volumes.create(&dry_run(), &wanted).await?;
            let finalizers = created.metadata.finalizers.unwrap_or_default();
            ensure!(finalizers == after, "{finalizers:?}");
            anyhow::Ok(())
        })
        .await?;
    }
    Ok(())
}

/// PV-01, PV-02: a finalizer that a client removes from a volume is added again.
#[tokio::test]
async fn a_stripped_finalizer_comes_back() -> Result<()> {
    let pair = Pair::new("pv-strip").await?;
    pair.create_volume(json!({})).await?;
    pair.patch_volume(json!({"metadata": {"finalizers": [FOREIGN]}}))
        .await?;
    pair.volume_has_finalizers(&[FOREIGN, PROTECTION]).await
}

/// PV-04: a volume without a claim, and one that is reserved for a claim by name.
#[tokio::test]
async fn a_volume_that_is_not_bound_is_deleted() -> Result<()> {
    let free = Pair::new("pv-free").await?;
    free.create_volume(json!({})).await?;
    free.delete_volume().await?;
    free.volume_is_gone().await?;

    let reserved = Pair::new("pv-reserved").await?;
    reserved
        .create_volume(
            json!({"spec": {"claimRef": {"namespace": reserved.space.name, "name": "later"}}}),
        )
        .await?;
    reserved.delete_volume().await?;
    reserved.volume_is_gone().await
}

/// PV-06. Once the claim is deleted, the volume is Released, and its deletion completes.
#[tokio::test]
async fn a_bound_volume_waits_for_its_claim() -> Result<()> {
    let pair = Pair::new("pv-bound").await?;
    pair.create_volume(json!({})).await?;
    pair.create_claim().await?;
    pair.is_bound().await?;
    pair.delete_volume().await?;
    pair.settle().await?;
    pair.is_bound().await?;
    assert_eq!(pair.volume_finalizers().await?, [PROTECTION]);
    pair.space.delete_claim("data").await?;
    pair.volume_is_gone().await
}

/// PV-16: the binder does not bind a claim to a volume that is being deleted.
#[tokio::test]
async fn a_deleting_volume_is_not_bound_to_a_claim_that_names_it() -> Result<()> {
    let pair = Pair::new("pv-single").await?;
    pair.create_volume(json!({"metadata": {"finalizers": [FOREIGN]}}))
        .await?;
    pair.delete_volume().await?;
    pair.volume_has_finalizers(&[FOREIGN]).await?;
    pair.create_claim().await?;
    eventually("the binder reports the mismatch", async || {
        let events = pair.space.events_with("VolumeMismatch").await?;
        anyhow::Ok(events.iter().any(|event| {
            event
                .message
                .as_deref()
                .unwrap_or("")
                .contains("marked for deletion")
        }))
    })
    .await?;
    pair.patch_volume(json!({"metadata": {"finalizers": null}}))
        .await
}

/// The claim names the volume, and the volume names the claim, so the binder would bind them
/// although the volume is being deleted. The webhook refuses both writes of a binding: the one of
/// the claimRef, and the one of the phase, which remains if a client has already set the uid in the
/// claimRef.
#[tokio::test]
async fn a_deleting_volume_is_not_bound_even_if_both_sides_are_prepared() -> Result<()> {
    let pair = Pair::new("pv-double").await?;
    let reserved = json!({"namespace": pair.space.name, "name": "data"});
    pair.create_volume(
        json!({"metadata": {"finalizers": [FOREIGN]}, "spec": {"claimRef": reserved}}),
    )
    .await?;
    pair.delete_volume().await?;
    pair.volume_has_finalizers(&[FOREIGN]).await?;
    let refusals = pair.refusals().await?;
    pair.create_claim().await?;
    eventually("the binder was refused", async || {
        anyhow::Ok(pair.refusals().await? > refusals)
    })
    .await?;
    let now = pair.space.volumes.get(&pair.volume).await?;
    ensure!(
        now.spec
            .and_then(|spec| spec.claim_ref)
            .and_then(|claim| claim.uid)
            .is_none()
    );
    let claim = pair.space.claims.get("data").await?;
    assert_eq!(
        claim.status.and_then(|status| status.phase).as_deref(),
        Some("Pending")
    );

    let bind = json!({"status": {"phase": "Bound"}});
    let by_status = pair
        .space
        .volumes
        .patch_status(&pair.volume, &PatchParams::default(), &Patch::Merge(&bind))
        .await;
    let message = crate::support::refusal(by_status)?;
    ensure!(
        message.contains("is being deleted, so no claim may be bound to it"),
        "{message}"
    );
    pair.patch_volume(json!({"metadata": {"finalizers": null}}))
        .await?;
    pair.volume_is_gone().await
}

impl Pair {
    /// The number of refused writes of this volume by the binder, according to the audit log.
    async fn refusals(&self) -> Result<usize> {
        let calls = self.space.cluster.audit().all()?.by_user(BINDER);
        let own = calls
            .iter()
            .filter(|call| call.resource == "persistentvolumes" && call.name == self.volume);
        Ok(own.filter(|call| call.code == 403).count())
    }
}

/// A client removes the claimRef of a volume that is being deleted and whose claim is bound to it.
/// The binder may write the claimRef again: if that were refused, the claim would lose its data.
/// The finalizer of another client keeps the volume meanwhile, because Volume Warden removes its
/// own once the phase is not Bound, as the built-in controller does.
#[tokio::test]
async fn a_bound_pair_is_restored_after_its_claim_ref_is_removed() -> Result<()> {
    let pair = Pair::new("pv-torn").await?;
    pair.create_volume(json!({"metadata": {"finalizers": [FOREIGN]}}))
        .await?;
    pair.create_claim().await?;
    pair.is_bound().await?;
    pair.delete_volume().await?;
    pair.patch_volume(json!({"spec": {"claimRef": null}}))
        .await?;
    pair.is_bound().await?;
    pair.space.delete_claim("data").await?;
    pair.patch_volume(json!({"metadata": {"finalizers": null}}))
        .await?;
    pair.volume_is_gone().await
}

/// The webhook refuses no update of a deleting volume other than a binding.
#[tokio::test]
async fn other_updates_of_a_deleting_volume_pass() -> Result<()> {
    let pair = Pair::new("pv-other").await?;
    pair.create_volume(json!({"metadata": {"finalizers": [FOREIGN]}}))
        .await?;
    pair.delete_volume().await?;
    pair.patch_volume(json!({"metadata": {"labels": {"a": "b"}}}))
        .await?;
    pair.patch_volume(
        json!({"spec": {"claimRef": {"namespace": "default", "name": "by-name-only"}}}),
    )
    .await?;
    pair.patch_volume(json!({"metadata": {"finalizers": null}}))
        .await?;
    pair.volume_is_gone().await
}
