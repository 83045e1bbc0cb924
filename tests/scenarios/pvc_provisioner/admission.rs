//! Claims that are created during the admission of their pods.

mod authorize;
mod faults;
mod options;
pub mod outage_fixture;
pub mod posted;
mod refused;
mod warnings;

use super::support::{
    AWAITING_POD, CONTROLLER_ID, LONG_AGO, MANAGED_BY, PodSpace, TEMPLATE, annotations,
    awaiting_since, has_label_and_finalizer, is_owned_by, requesting_pod,
};
use crate::support::{claim, dry_run, guarded};
use anyhow::{Result, ensure};
use k8s_openapi::api::{
    apps::v1::ReplicaSet,
    core::v1::{PersistentVolumeClaim, Pod},
};
use kube::{
    Api, ResourceExt,
    api::{ListParams, Patch, PatchParams, PostParams},
};
use posted::{post_and_get_claim, post_requesting_pod};
use serde_json::{Value, json};
use volume_warden_controlplane::eventually;

/// The claim exists when the POST of the pod returns. Later the pod becomes the owner of the claim,
/// and exactly one Event reports that the claim was created.
#[tokio::test]
async fn the_claim_exists_when_the_pod_is_created() -> Result<()> {
    let pod_space = PodSpace::new(guarded().await?, "birth").await?;
    let (response, at_once) = post_and_get_claim(&pod_space).await?;
    has_label_and_finalizer(&at_once)?;
    ensure!(response.warnings.is_empty(), "{:?}", response.warnings);
    let pod: Pod = response.object()?;
    let name = pod.name_any();
    let claim = pod_space.belongs(&name, &pod).await?;
    assert_eq!(claim.uid(), at_once.uid());
    pod_space.has_event(&name, "PVCProvisioned", &name).await?;
    pod_space.wait_until_processed().await?;
    assert_eq!(pod_space.pod_events(&name).await?.len(), 1);
    Ok(())
}

/// The pods of a ReplicaSet share the claim that the pod template names: one pod owns the claim,
/// and the other pod gets an Event.
#[tokio::test]
async fn pods_of_one_template_share_their_claim() -> Result<()> {
    let pod_space = PodSpace::new(guarded().await?, "twins").await?;
    let pods = replica_pods(&pod_space).await?;
    pod_space.bind("data").await?;
    let owner = eventually("one of the pods owns the claim", async || {
        let claim = pod_space.claim("data").await?;
        anyhow::Ok(pods.iter().position(|pod| is_owned_by(&claim, pod).is_ok()))
    })
    .await?;
    let (owner, other) = (pods[owner].name_any(), pods[1 - owner].name_any());
    let owned = format!("owned by Pod \"{owner}\"");
    pod_space.has_event(&other, "ClaimShared", &owned).await?;
    pod_space
        .has_event(&owner, "PVCProvisioned", "\"data\"")
        .await?;
    pod_space.wait_until_processed().await?;
    for pod in [owner, other] {
        assert_eq!(pod_space.pod_events(&pod).await?.len(), 1, "{pod}");
    }
    Ok(())
}

/// Creates a ReplicaSet of two pods, and returns the pods.
async fn replica_pods(pod_space: &PodSpace) -> Result<[Pod; 2]> {
    let label = json!({"app": "twins"});
    let changes = json!({"metadata": {"name": null, "labels": label}});
    let set = json!({
        "metadata": {"name": "twins"},
        "spec": {"replicas": 2, "selector": {"matchLabels": label}, "template": requesting_pod("", "data", changes)?},
    });
    let space = &pod_space.space;
    let sets: Api<ReplicaSet> = Api::namespaced(space.cluster.client(), &space.name);
    let set = serde_json::from_value(set)?;
    sets.create(&PostParams::default(), &set).await?;
    eventually("both pods exist", async || {
        let pods = space.pods.list(&ListParams::default()).await?.items;
        anyhow::Ok(pods.try_into().ok())
    })
    .await
}

/// A dry run of the user creates no claim, and the warnings report errors of single fields.
#[tokio::test]
async fn a_dry_run_makes_no_claim() -> Result<()> {
    let pod_space = PodSpace::new(guarded().await?, "rehearsal").await?;
    let misspelt = TEMPLATE.replace("storageClassName", "storageclassName");
    for (text, part) in [
        (
            &*misspelt,
            "line 5, column 3: unknown field \"spec.storageclassName\"",
        ),
        ("}", "line 1"),
        (TEMPLATE, ""),
    ] {
        let template = annotations(&[("data.pvc", Some(text))]);
        let response = post_requesting_pod(&pod_space, template, "dryRun=All").await?;
        ensure!(
            response.code == 201 && response.has_warning(part) != part.is_empty(),
            "{response:?}"
        );
    }
    pod_space.wait_until_processed().await?;
    ensure!(pod_space.claim_names().await?.is_empty());
    let mut created = pod_space.creation_codes()?;
    created.retain(|code| *code == 201);
    ensure!(
        created.len() == 1,
        "not only the canary's claim: {created:?}"
    );
    Ok(())
}

/// A claim that was copied or restored with its marker does not await a pod: the webhook removes
/// the marker and keeps the other metadata.
#[tokio::test]
async fn a_copied_claim_does_not_keep_the_marker() -> Result<()> {
    let pod_space = PodSpace::new(guarded().await?, "copied").await?;
    let created = created_without_marker(&pod_space, awaiting_since(LONG_AGO)).await?;
    assert_eq!(json!(created.labels()), json!({MANAGED_BY: CONTROLLER_ID}));
    let mut own = awaiting_since(LONG_AGO);
    own["metadata"]["annotations"]["example.com/own"] = json!("kept");
    let created = created_without_marker(&pod_space, own).await?;
    assert_eq!(
        json!(created.annotations()),
        json!({"example.com/own": "kept"})
    );
    // Without the label, the marker does not count, and no webhook is called.
    let unlabelled = json!({"metadata": {"annotations": {AWAITING_POD: LONG_AGO}}});
    let created = pod_space.create_claim("unlabelled", unlabelled).await?;
    assert!(created.annotations().contains_key(AWAITING_POD));
    let label = Patch::Merge(json!({"metadata": {"labels": {MANAGED_BY: CONTROLLER_ID}}}));
    let claims = &pod_space.space.claims;
    let labelled = claims
        .patch("unlabelled", &PatchParams::default(), &label)
        .await?;
    assert!(!labelled.annotations().contains_key(AWAITING_POD));
    Ok(())
}

/// Creates a claim with this metadata in a dry run, and waits until the webhook removes the marker.
async fn created_without_marker(
    pod_space: &PodSpace,
    metadata: Value,
) -> Result<PersistentVolumeClaim> {
    let copy = claim("copy", metadata)?;
    eventually("the webhook removes the marker", async || {
        let created = pod_space.space.claims.create(&dry_run(), &copy).await?;
        ensure!(
            !created.annotations().contains_key(AWAITING_POD),
            "{:?}",
            created.metadata
        );
        anyhow::Ok(Some(created))
    })
    .await
}
