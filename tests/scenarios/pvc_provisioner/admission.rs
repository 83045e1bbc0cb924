//! Claims that are created during the admission of their pods.

mod authorize;
mod faults;
mod options;
pub mod outage_fixture;
pub mod posted;
mod refused;
mod warnings;

use super::support::{
    Askers, ID, LABEL, LONG_AGO, MARK, TEMPLATE, annotations, asking, is_given, is_made, marked,
};
use crate::support::{claim, dry_run, guarded};
use anyhow::{Result, ensure};
use k8s_openapi::api::{
    apps::v1::ReplicaSet,
    core::v1::{PersistentVolumeClaim, Pod},
};
use kube::{
    Api, ResourceExt,
    api::{ListParams, PostParams},
};
use posted::{asked, asked_for};
use serde_json::{Value, json};
use volume_warden_controlplane::eventually;

/// The claim exists when the pod's POST returns, the pod becomes its owner, and one Event says so.
#[tokio::test]
async fn the_claim_is_there_when_the_pod_is() -> Result<()> {
    let askers = Askers::new(guarded().await?, "birth").await?;
    let (posted, at_once) = asked_for(&askers).await?;
    is_made(&at_once)?;
    ensure!(posted.warnings.is_empty(), "{:?}", posted.warnings);
    let pod: Pod = posted.object()?;
    let name = pod.name_any();
    let claim = askers.belongs(&name, &pod).await?;
    assert_eq!(claim.uid(), at_once.uid());
    askers.has_event(&name, "PVCProvisioned", &name).await?;
    askers.settled().await?;
    assert_eq!(askers.pod_events(&name).await?.len(), 1);
    Ok(())
}

/// A workload's pods share the claim that their template names: one pod owns it, the other one
/// gets an Event.
#[tokio::test]
async fn pods_of_one_template_share_their_claim() -> Result<()> {
    let askers = Askers::new(guarded().await?, "twins").await?;
    let pods = twins(&askers).await?;
    askers.bind("data").await?;
    let owner = eventually("one of them owns the claim", async || {
        let claim = askers.claim("data").await?;
        anyhow::Ok(pods.iter().position(|pod| is_given(&claim, pod).is_ok()))
    })
    .await?;
    let (owner, other) = (pods[owner].name_any(), pods[1 - owner].name_any());
    let owned = format!("owned by Pod \"{owner}\"");
    askers.has_event(&other, "ClaimShared", &owned).await?;
    askers
        .has_event(&owner, "PVCProvisioned", "\"data\"")
        .await?;
    askers.settled().await?;
    for pod in [owner, other] {
        assert_eq!(askers.pod_events(&pod).await?.len(), 1, "{pod}");
    }
    Ok(())
}

/// The two pods of a ReplicaSet.
async fn twins(askers: &Askers) -> Result<[Pod; 2]> {
    let label = json!({"app": "twins"});
    let nameless = json!({"metadata": {"name": null, "labels": label}});
    let set = json!({
        "metadata": {"name": "twins"},
        "spec": {"replicas": 2, "selector": {"matchLabels": label}, "template": asking("", "data", nameless)?},
    });
    let space = &askers.space;
    let sets: Api<ReplicaSet> = Api::namespaced(space.cluster.client(), &space.name);
    let set = serde_json::from_value(set)?;
    sets.create(&PostParams::default(), &set).await?;
    eventually("both pods exist", async || {
        let pods = space.pods.list(&ListParams::default()).await?.items;
        anyhow::Ok(pods.try_into().ok())
    })
    .await
}

/// A dry run by the user creates nothing, and reports errors down to single fields.
#[tokio::test]
async fn a_dry_run_makes_no_claim() -> Result<()> {
    let askers = Askers::new(guarded().await?, "rehearsal").await?;
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
        let posted = asked(&askers, template, "dryRun=All").await?;
        ensure!(
            posted.code == 201 && posted.says(part) != part.is_empty(),
            "{posted:?}"
        );
    }
    askers.settled().await?;
    ensure!(askers.claims().await?.is_empty());
    let mut made = askers.creations()?;
    made.retain(|code| *code == 201);
    ensure!(made.len() == 1, "beside the canary's: {made:?}");
    Ok(())
}

/// A copied or restored claim was created for no pod: the webhook removes the mark and keeps the
/// rest.
#[tokio::test]
async fn a_copied_claim_does_not_keep_the_mark() -> Result<()> {
    let askers = Askers::new(guarded().await?, "copied").await?;
    let created = created_without_mark(&askers, marked(LONG_AGO)).await?;
    assert_eq!(json!(created.labels()), json!({LABEL: ID}));
    let own = json!({"metadata": {"annotations": {MARK: LONG_AGO, "example.com/own": "kept"}}});
    let created = created_without_mark(&askers, own).await?;
    assert_eq!(
        json!(created.annotations()),
        json!({"example.com/own": "kept"})
    );
    Ok(())
}

async fn created_without_mark(askers: &Askers, metadata: Value) -> Result<PersistentVolumeClaim> {
    let copy = claim("copy", metadata)?;
    eventually("the webhook answers in time", async || {
        let created = askers.space.claims.create(&dry_run(), &copy).await?;
        ensure!(
            !created.annotations().contains_key(MARK),
            "{:?}",
            created.metadata
        );
        anyhow::Ok(Some(created))
    })
    .await
}
