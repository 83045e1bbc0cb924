//! Objects of which the faults consist.

use crate::support::{Space, claim, dry_run, volume};
use anyhow::{Result, ensure};
use k8s_openapi::api::{core::v1::PersistentVolume, storage::v1::StorageClass};
use kube::{
    Api,
    api::{DeleteParams, PostParams},
};
use serde_json::{Value, json};
use volume_warden_controlplane::eventually;

/// Creates a StorageClass whose provisioner does not run, with `changes` merged over it.
pub async fn class(space: &Space, name: &str, changes: Value) -> Result<()> {
    let mut class = json!({"metadata": {"name": name}, "provisioner": "silent.example.com"});
    json_patch::merge(&mut class, &changes);
    let classes: Api<StorageClass> = Api::all(space.cluster.client());
    classes
        .create(&PostParams::default(), &serde_json::from_value(class)?)
        .await?;
    Ok(())
}

/// Creates the volume `<namespace>-<suffix>` of the StorageClass `<namespace>`, with `changes`
/// merged over it, and returns its name.
pub async fn create_volume(space: &Space, suffix: &str, changes: Value) -> Result<String> {
    let name = format!("{}-{suffix}", space.name);
    let changes = with_class(space, changes);
    space
        .volumes
        .create(&PostParams::default(), &volume(&name, changes)?)
        .await?;
    Ok(name)
}

/// Adds the StorageClass `<namespace>` to `changes`. A null in `changes` is kept, and removes a
/// field.
fn with_class(space: &Space, mut changes: Value) -> Value {
    changes["spec"]["storageClassName"] = json!(space.name);
    changes
}

/// Creates a claim of the StorageClass `<namespace>`, with `changes` merged over it.
pub async fn create_claim(space: &Space, name: &str, changes: Value) -> Result<()> {
    let changes = with_class(space, changes);
    space
        .claims
        .create(&PostParams::default(), &claim(name, changes)?)
        .await?;
    Ok(())
}

/// Creates a claim without a StorageClass once the API server sets `class` as its default class.
/// The API server learns of default classes with a delay.
pub async fn classless(space: &Space, name: &str, class: Option<&str>) -> Result<()> {
    let without = claim(name, json!({"spec": {"storageClassName": null}}))?;
    eventually(
        "the API server sets the expected default class",
        async || {
            let created = space.claims.create(&dry_run(), &without).await?;
            let set = created.spec.and_then(|spec| spec.storage_class_name);
            ensure!(set.as_deref() == class, "{set:?}");
            Ok(())
        },
    )
    .await?;
    let claims = &space.claims;
    claims.create(&PostParams::default(), &without).await?;
    Ok(())
}

/// Deletes a claim once it has the protection finalizer. If the webhook answered too late, the
/// reconciler adds the finalizer after the creation.
pub async fn delete_claim(space: &Space, name: &str) -> Result<()> {
    space.claim_is_protected(name).await?;
    space.delete_claim(name).await
}

/// Creates a volume, with `changes` merged over it, and a claim, waits until the claim is bound to
/// the volume, and returns the name of the volume.
pub async fn bound(space: &Space, name: &str, changes: Value) -> Result<String> {
    let volume = create_volume(space, name, changes).await?;
    create_claim(space, name, json!({"spec": {"volumeName": volume}})).await?;
    eventually("the claim is bound", async || {
        let phase = space
            .claims
            .get(name)
            .await?
            .status
            .and_then(|status| status.phase);
        ensure!(phase.as_deref() == Some("Bound"), "{phase:?}");
        Ok(())
    })
    .await?;
    Ok(volume)
}

/// Creates a volume, with `changes` merged over it, deletes the claim that is bound to it, waits
/// until the volume is Released, and returns its name.
pub async fn create_released_volume(space: &Space, changes: Value) -> Result<String> {
    let volume = bound(space, "data", changes).await?;
    space.delete_claim("data").await?;
    has_phase(&space.volumes, &volume, "Released").await?;
    Ok(volume)
}

/// Waits until the volume has the phase `wanted`.
pub async fn has_phase(volumes: &Api<PersistentVolume>, name: &str, wanted: &str) -> Result<()> {
    eventually(&format!("the volume is {wanted}"), async || {
        let phase = volumes
            .get(name)
            .await?
            .status
            .and_then(|status| status.phase);
        ensure!(phase.as_deref() == Some(wanted), "{phase:?}");
        Ok(())
    })
    .await
}

/// Deletes a volume that has a holder, once it has the protection finalizer.
pub async fn delete_volume(space: &Space, name: &str) -> Result<()> {
    eventually(&format!("volume {name} has its finalizer"), async || {
        let finalizers = space.volumes.get(name).await?.metadata.finalizers;
        let finalizers = finalizers.unwrap_or_default();
        let is_protection = |each: &String| each == "kubernetes.io/pv-protection";
        ensure!(finalizers.iter().any(is_protection), "{finalizers:?}");
        Ok(())
    })
    .await?;
    space.volumes.delete(name, &DeleteParams::default()).await?;
    Ok(())
}
