//! Uninstallation: a drain with the arguments and the permissions of the shipped Job removes what
//! Volume Warden wrote. Then the manifests are deleted, and every object can be deleted although no
//! Volume Warden runs.

use super::{
    shipped::{deletes_webhooks_first, job_arguments},
    support::{CLAIM_FINALIZER, DrainFixture, FOREIGN, VOLUME_FINALIZER},
};
use crate::{
    pvc_provisioner::support::{PREFIX, TEMPLATE},
    pvc_retention::support::{DELETE_DELETE, MARK, SetSpace},
    support::{BINARY, Space, repository, webhooks_answer},
};
use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::{ResourceExt, api::DeleteParams};
use serde_json::json;
use volume_warden_controlplane::{Warden, eventually};

const MANAGED_BY_PROVISIONER: &str = "dynamic-pvc-provisioner.kubernetes.io/managed-by";
const MANAGED_BY_RELEASER: &str = "reclaimable-pv-releaser.kubernetes.io/managed-by";

/// Creates objects on which Volume Warden writes, and stops Volume Warden: the claim of a
/// StatefulSet, which is deleted with the set; a claim that a pod requests; the volume of that
/// claim; and a claim with a label and a finalizer of other clients. Returns the name of the
/// volume.
async fn create_objects(drain_fixture: &DrainFixture, sets: &SetSpace) -> Result<String> {
    let space = &sets.space;
    let warden = Warden::builder(&space.cluster, BINARY)
        .serving()
        .start()
        .await?;
    webhooks_answer(&space.cluster.client()).await?;
    space.create_claim("plain").await?;
    let foreign =
        json!({"metadata": {"labels": {"app": "x"}, "finalizers": [CLAIM_FINALIZER, FOREIGN]}});
    space.patch_claim("plain", foreign).await?;
    sets.create("web", 1, DELETE_DELETE).await?;
    sets.claim_is_owned_by("data-web-0", &["StatefulSet/web"])
        .await?;
    let annotations =
        json!({format!("{PREFIX}data.enabled"): "true", format!("{PREFIX}data.pvc"): TEMPLATE});
    space
        .create_pod(
            "build",
            "cache",
            json!({"metadata": {"annotations": annotations}}),
        )
        .await?;
    let cache = eventually("the claim for the pod exists", async || {
        space.claims.get_opt("cache").await
    })
    .await?
    .metadata
    .uid;
    let reference = json!({"namespace": space.name, "name": "cache", "uid": cache});
    let changes = json!({"metadata": {"finalizers": null}, "spec": {"claimRef": reference}});
    let volume = drain_fixture.create_volume(changes).await?;
    eventually(
        "the volume is protected, and pv-releaser has labelled it",
        async || {
            let found = space.volumes.get(&volume).await?;
            let labelled = found.labels().contains_key(MANAGED_BY_RELEASER);
            ensure!(
                labelled && found.finalizers() == [VOLUME_FINALIZER],
                "{:?}",
                found.metadata
            );
            Ok(())
        },
    )
    .await?;
    eventually("the bound claim is owned by its pod", async || {
        let cache = space.claims.get("cache").await?;
        ensure!(cache.owner_references().len() == 1, "{:?}", cache.metadata);
        Ok(())
    })
    .await?;
    let status = warden.stop().await?;
    ensure!(status.success(), "{status}");
    Ok(volume)
}

/// Checks that what Volume Warden wrote is removed, except the owner reference to a pod, and that
/// what other clients wrote is left.
async fn only_foreign_parts_are_left(space: &Space, volume: &str) -> Result<()> {
    let claims = space.claims.list(&Default::default()).await?.items;
    let is_written = |claim: &&PersistentVolumeClaim| {
        let protected = claim
            .finalizers()
            .iter()
            .any(|each| each == CLAIM_FINALIZER);
        let owned = claim
            .owner_references()
            .iter()
            .any(|owner| owner.kind == "StatefulSet");
        let marked = claim.annotations().contains_key(MARK);
        protected || owned || marked || claim.labels().contains_key(MANAGED_BY_PROVISIONER)
    };
    let left: Vec<_> = claims
        .iter()
        .filter(is_written)
        .map(|claim| &claim.metadata)
        .collect();
    ensure!(left.is_empty() && claims.len() == 3, "{left:#?}");
    let plain = space.claims.get("plain").await?;
    ensure!(plain.finalizers() == [FOREIGN], "{:?}", plain.metadata);
    ensure!(plain.labels().contains_key("app"), "{:?}", plain.metadata);
    // The claim is still deleted with its owner pod.
    let cache = space.claims.get("cache").await?;
    ensure!(
        cache
            .owner_references()
            .iter()
            .any(|owner| owner.kind == "Pod"),
        "{:?}",
        cache.metadata
    );
    let volume = space.volumes.get(volume).await?;
    ensure!(volume.finalizers().is_empty(), "{:?}", volume.metadata);
    ensure!(
        !volume.labels().contains_key(MANAGED_BY_RELEASER),
        "{:?}",
        volume.metadata
    );
    Ok(())
}

#[tokio::test]
async fn after_a_drain_and_without_manifests_everything_can_be_deleted() -> Result<()> {
    let drain_fixture = DrainFixture::new("way-out").await?;
    let sets = SetSpace::new(drain_fixture.space.cluster.clone(), "way-out").await?;
    let (space, cluster) = (&sets.space, &sets.space.cluster);
    let volume = create_objects(&drain_fixture, &sets).await?;
    let arguments = job_arguments(&drain_fixture).await?;
    let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
    let drained = drain_fixture.drain(&arguments).await?;
    drained.left_nothing()?;
    let removed = |name: &str| format!("claim {}/{name}: removed", space.name);
    drained.prints(&[&removed("plain"), CLAIM_FINALIZER])?;
    drained.prints(&[
        &removed("data-web-0"),
        CLAIM_FINALIZER,
        "StatefulSet/web",
        MARK,
    ])?;
    drained.prints(&[&removed("cache"), MANAGED_BY_PROVISIONER])?;
    drained.prints(&[&volume, VOLUME_FINALIZER, MANAGED_BY_RELEASER])?;
    only_foreign_parts_are_left(space, &volume).await?;
    assert_eq!(drain_fixture.configurations().await?, [""; 0]);
    deletes_webhooks_first(&drain_fixture.calls()?)?;
    let again = drain_fixture.drain(&arguments).await?;
    again.left_nothing()?;
    again.prints(&[" 0 changed; "])?;
    for kustomization in ["manifests/drain/in-tree-off", "manifests"] {
        let directory = repository().join(kustomization);
        cluster
            .kubectl(&[
                "delete",
                "--ignore-not-found",
                "-k",
                &directory.to_string_lossy(),
            ])
            .await?;
    }
    sets.delete("web", &DeleteParams::background()).await?;
    space
        .patch_claim("plain", json!({"metadata": {"finalizers": null}}))
        .await?;
    space.delete_pod("build").await?;
    space.delete_claim("plain").await?;
    space.delete_claim("data-web-0").await?;
    for claim in ["plain", "data-web-0", "cache"] {
        space.claim_is_gone(claim).await?;
    }
    space
        .volumes
        .delete(&volume, &DeleteParams::default())
        .await?;
    drain_fixture.volume_is_gone(&volume).await
}
