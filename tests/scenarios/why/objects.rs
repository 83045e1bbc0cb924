//! What the faults are made of.

use crate::support::{Space, claim, dry_run, volume};
use anyhow::{Result, ensure};
use k8s_openapi::api::{core::v1::PersistentVolume, storage::v1::StorageClass};
use kube::{
    Api,
    api::{DeleteParams, PostParams},
};
use serde_json::{Value, json};
use volume_warden_controlplane::eventually;

/// A class of that name, with changes merged over it.
pub async fn class(space: &Space, name: &str, changes: Value) -> Result<()> {
    let mut class = json!({"metadata": {"name": name}, "provisioner": "silent.example.com"});
    json_patch::merge(&mut class, &changes);
    let classes: Api<StorageClass> = Api::all(space.cluster.client());
    classes
        .create(&PostParams::default(), &serde_json::from_value(class)?)
        .await?;
    Ok(())
}

/// A volume of the class that is named as the space, with changes merged over it. It is named so
/// too, with something behind.
pub async fn a_volume(space: &Space, behind: &str, changes: Value) -> Result<String> {
    let name = format!("{}-{behind}", space.name);
    let all = with_class(space, changes);
    space
        .volumes
        .create(&PostParams::default(), &volume(&name, all)?)
        .await?;
    Ok(name)
}

/// A null among the changes stays one: it takes a field off.
fn with_class(space: &Space, mut changes: Value) -> Value {
    changes["spec"]["storageClassName"] = json!(space.name);
    changes
}

/// A claim of the class that is named as the space, with changes merged over it.
pub async fn a_claim(space: &Space, name: &str, changes: Value) -> Result<()> {
    let all = with_class(space, changes);
    space
        .claims
        .create(&PostParams::default(), &claim(name, all)?)
        .await?;
    Ok(())
}

/// A claim that asks for no class, made when the API server gives it that one: it hears of default
/// classes a little late.
pub async fn classless(space: &Space, name: &str, class: Option<&str>) -> Result<()> {
    let without = claim(name, json!({"spec": {"storageClassName": null}}))?;
    eventually("the API server knows the default class", async || {
        let given = space.claims.create(&dry_run(), &without).await?;
        let given = given.spec.and_then(|spec| spec.storage_class_name);
        ensure!(given.as_deref() == class, "{given:?}");
        Ok(())
    })
    .await?;
    let claims = &space.claims;
    claims.create(&PostParams::default(), &without).await?;
    Ok(())
}

/// Deletes a claim that is protected by then. A webhook that answered too late left that to the background.
pub async fn delete_claim(space: &Space, name: &str) -> Result<()> {
    space.claim_is_protected(name).await?;
    space.delete_claim(name).await
}

/// A claim that has a volume, whose name it returns.
pub async fn bound(space: &Space, name: &str, changes: Value) -> Result<String> {
    let volume = a_volume(space, name, changes).await?;
    a_claim(space, name, json!({"spec": {"volumeName": volume}})).await?;
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

/// A volume whose claim is gone.
pub async fn released(space: &Space, changes: Value) -> Result<String> {
    let volume = bound(space, "data", changes).await?;
    space.delete_claim("data").await?;
    has_phase(&space.volumes, &volume, "Released").await?;
    Ok(volume)
}

/// Waits until the volume is in that phase.
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

/// Deletes the volume, which something holds and which is protected by then, as claims are.
pub async fn delete_volume(space: &Space, name: &str) -> Result<()> {
    eventually(&format!("volume {name} is protected"), async || {
        let finalizers = space.volumes.get(name).await?.metadata.finalizers;
        let finalizers = finalizers.unwrap_or_default();
        let own = |each: &String| each == "kubernetes.io/pv-protection";
        ensure!(finalizers.iter().any(own), "{finalizers:?}");
        Ok(())
    })
    .await?;
    space.volumes.delete(name, &DeleteParams::default()).await?;
    Ok(())
}
