//! Volumes, from birth to the end, on the real control plane. Rows PV-* of upstream's tables.

use crate::support::{Space, claim, dry_run, guarded, volume};
use anyhow::{Result, ensure};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use volume_warden_controlplane::eventually;

const PROTECTION: &str = "kubernetes.io/pv-protection";

/// Who binds volumes to claims.
const BINDER: &str = "system:serviceaccount:kube-system:persistent-volume-binder";

/// A finalizer of another client keeps a volume in sight after Volume Warden's is gone.
const FOREIGN: &str = "example.com/hold";

/// A namespace, and a volume and a claim that are made for each other. Volumes have no namespace,
/// so their names carry it.
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

    /// The class is the pair's own: no other scenario's claim can take the volume.
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

    /// A claim that names the volume.
    async fn create_claim(&self) -> Result<()> {
        let wish =
            json!({"spec": {"volumeName": self.volume, "storageClassName": self.space.name}});
        self.space
            .claims
            .create(&PostParams::default(), &claim("data", wish)?)
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

    async fn is_bound(&self) -> Result<()> {
        eventually("claim and volume are Bound", async || {
            let volume = self
                .space
                .volumes
                .get(&self.volume)
                .await?
                .status
                .and_then(|status| status.phase);
            let claim = self
                .space
                .claims
                .get("data")
                .await?
                .status
                .and_then(|status| status.phase);
            ensure!(
                volume.as_deref() == Some("Bound") && claim.as_deref() == Some("Bound"),
                "{volume:?} {claim:?}"
            );
            Ok(())
        })
        .await
    }

    async fn volume_has_finalizers(&self, expected: &[&str]) -> Result<()> {
        eventually("the volume's finalizers are as expected", async || {
            let finalizers = self.volume_finalizers().await?;
            ensure!(finalizers == expected, "{finalizers:?}");
            Ok(())
        })
        .await
    }

    async fn volume_is_gone(&self) -> Result<()> {
        eventually("the volume is gone", async || {
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

    /// Volume Warden has worked off everything before: a volume created and deleted afterwards is gone.
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

/// PV-07, PV-08.
#[tokio::test]
async fn admission_appends_the_finalizer_once() -> Result<()> {
    let pair = Pair::new("pv-admit").await?;
    for (before, after) in [
        (json!(null), vec![PROTECTION]),
        (json!([FOREIGN]), vec![FOREIGN, PROTECTION]),
        (json!([PROTECTION, FOREIGN]), vec![PROTECTION, FOREIGN]),
    ] {
        let wanted = volume(&pair.volume, json!({"metadata": {"finalizers": before}}))?;
        // On a busy machine the webhook may be too late once; then the volume passes as it is.
        eventually("admission does its part", async || {
            let created = pair.space.volumes.create(&dry_run(), &wanted).await?;
            let finalizers = created.metadata.finalizers.unwrap_or_default();
            ensure!(finalizers == after, "{finalizers:?}");
            anyhow::Ok(())
        })
        .await?;
    }
    Ok(())
}

/// PV-01, PV-02.
#[tokio::test]
async fn a_stripped_finalizer_comes_back() -> Result<()> {
    let pair = Pair::new("pv-strip").await?;
    pair.create_volume(json!({})).await?;
    pair.patch_volume(json!({"metadata": {"finalizers": [FOREIGN]}}))
        .await?;
    pair.volume_has_finalizers(&[FOREIGN, PROTECTION]).await
}

/// PV-04: free, reserved by name, or released.
#[tokio::test]
async fn a_volume_that_is_not_bound_goes() -> Result<()> {
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

/// PV-06, and the end of the story: the claim goes, the volume is Released, and then it may go.
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

/// PV-16: the binder itself refuses a claim that names a deleting volume.
#[tokio::test]
async fn a_deleting_volume_is_not_bound_to_a_claim_that_names_it() -> Result<()> {
    let pair = Pair::new("pv-single").await?;
    pair.create_volume(json!({"metadata": {"finalizers": [FOREIGN]}}))
        .await?;
    pair.delete_volume().await?;
    pair.volume_has_finalizers(&[FOREIGN]).await?;
    pair.create_claim().await?;
    eventually("the binder says why", async || {
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

/// The binder would complete a binding that was prepared on both sides, although the volume is
/// being deleted. The guard refuses it: once through the claimRef, and once, where a client already
/// filled in the uid, through the phase.
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
    eventually("the binder tried and was refused", async || {
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
    /// How often the binder was denied a write of this volume, by the API server's audit log.
    async fn refusals(&self) -> Result<usize> {
        let calls = self.space.cluster.audit().all()?.by_user(BINDER);
        let of_own = calls
            .iter()
            .filter(|call| call.resource == "persistentvolumes" && call.name == self.volume);
        Ok(of_own.filter(|call| call.code == 403).count())
    }
}

/// A pair that is bound on the claim's side is whole again after a client emptied the volume's
/// claimRef, although the volume is being deleted: refusing that write would cost the claim its
/// data. A finalizer of another client keeps the volume meanwhile; Volume Warden's is removed with
/// the phase, as Kubernetes' own does.
#[tokio::test]
async fn a_bound_pair_is_never_torn() -> Result<()> {
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

/// What else happens to a deleting volume is none of the guard's business.
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
