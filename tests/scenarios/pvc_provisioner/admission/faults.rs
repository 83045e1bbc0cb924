//! What goes wrong while pods are created. The pod is created all the same, and has its claim in the end.

use super::{
    posted::{asked_for, heard, post},
    ward::Ward,
};
use crate::pvc_provisioner::{
    patient::{claim_posts, claim_write},
    support::{ID, LABEL, MARK, asking},
};
use anyhow::{Context, Result, ensure};
use k8s_openapi::{
    api::core::v1::{PersistentVolumeClaim, Pod},
    jiff::Timestamp,
};
use kube::{ResourceExt, api::ListParams};
use serde_json::json;
use volume_warden_controlplane::{Rule, eventually};

/// Before its pod is known the claim has a mark instead of an owner; one write changes one for the other.
#[tokio::test]
async fn a_claim_awaits_its_pod_with_a_mark() -> Result<()> {
    let ward = Ward::new("marked", &[]).await?;
    let askers = &ward.askers;
    let began = Timestamp::now();
    let held = ward.between.add(claim_write("PATCH", "pod").hold());
    let (posted, claim) = asked_for(askers).await?;
    held.held(1).await?;
    let (pod, name) = (posted.object::<Pod>()?, claim.name_any());
    ensure!(claim.owner_references().is_empty(), "{:?}", claim.metadata);
    assert_eq!(claim.finalizers(), ["kubernetes.io/pvc-protection"]);
    assert_eq!(json!(claim.labels()), json!({LABEL: ID}));
    let mark = claim.annotations().get(MARK).context("no mark")?;
    let since: Timestamp = mark.parse()?;
    ensure!(
        since.as_second() >= began.as_second() && since <= Timestamp::now(),
        "{since}"
    );
    ensure!(
        askers.told(&name).await?.is_empty(),
        "told before it is the pod's"
    );

    held.release();
    assert_eq!(askers.belongs(&name, &pod).await?.uid(), claim.uid());
    askers.is_told(&name, "PVCProvisioned", &name).await?;
    askers.settled().await?;
    assert_eq!(askers.told(&name).await?.len(), 1);
    let path = format!("/persistentvolumeclaims/{name}");
    let mut patches = ward.between.requests();
    patches.retain(|seen| seen.method == "PATCH" && seen.path.ends_with(&path));
    assert_eq!(patches.len(), 1);
    Ok(())
}

/// The POST of a pod waits no longer than the webhook may take; who creates it is told, and the claim is made later.
#[tokio::test]
async fn a_claim_that_cannot_be_made_at_once_is_made_later() -> Result<()> {
    let ward = Ward::new("not-at-once", &[]).await?;
    let askers = &ward.askers;
    let fault = claim_posts;
    for (fault, cause) in [
        (
            fault().respond(503, "ServiceUnavailable", "not now"),
            "not now",
        ),
        (
            fault().respond(403, "Forbidden", "not on my watch"),
            "not on my watch",
        ),
        (fault().cut(), ""),
        (fault().hold(), "the API server did not answer"),
    ] {
        // The background's own attempts begin as soon as the pod is there, so some fail as well.
        let broken = ward.between.add(fault);
        let posted = heard(askers, async |name| {
            post(&askers.space, &asking(name, name, json!({}))?, "").await
        })
        .await?;
        let said = posted.says("was not created, and will be tried again: ") && posted.says(cause);
        ensure!(posted.code == 201 && said, "{posted:?}");
        drop(broken);
        let pod: Pod = posted.object()?;
        let name = pod.name_any();
        askers.belongs(&name, &pod).await?;
        askers.is_told(&name, "PVCProvisioned", "made").await?;
    }
    Ok(())
}

/// The claim was made, and the answer is lost: the pod comes, and gets it.
#[tokio::test]
async fn a_claim_whose_answer_was_lost_is_given_to_its_pod() -> Result<()> {
    let ward = Ward::new("lost", &[]).await?;
    let askers = &ward.askers;
    let lost = ward.between.add(claim_posts().hold_response());
    let (posted, made) = heard(askers, async |name| {
        let posted = post(&askers.space, &asking(name, name, json!({}))?, "").await?;
        anyhow::Ok((posted, askers.space.claims.get_opt(name).await?))
    })
    .await?;
    ensure!(
        posted.code == 201 && posted.says("did not answer"),
        "{posted:?}"
    );
    let made = made.context("there is no claim")?;
    let pod: Pod = posted.object()?;
    let name = pod.name_any();
    assert_eq!(askers.belongs(&name, &pod).await?.uid(), made.uid());
    drop(lost);
    askers.is_told(&name, "PVCProvisioned", "made").await?;
    Ok(())
}

/// Volume Warden is killed while it makes the claim, before or after the API server has it. Nobody waits for it; its successor gives the
/// pod what there is, or makes it.
#[tokio::test]
async fn killed_while_a_pod_waits_for_its_claim() -> Result<()> {
    let mut ward = Ward::new("killed", &[]).await?;
    for (name, at) in [
        ("before", Rule::hold as fn(Rule) -> Rule),
        ("after", Rule::hold_response),
    ] {
        // The API server has heard of the webhook by now.
        asked_for(&ward.askers).await?;
        let held = ward.between.add(at(claim_posts()));
        let pod = asking(name, name, json!({}))?;
        let (posted, killed) = tokio::join!(post(&ward.askers.space, &pod, ""), async {
            held.held(1).await?;
            ward.warden.process().kill()
        });
        killed?;
        let posted = posted?;
        ensure!(posted.code == 201, "{posted:?}");
        let pod: Pod = posted.object()?;
        let made = ward.askers.space.claims.get_opt(name).await?;
        let marked = |claim: &PersistentVolumeClaim| claim.annotations().contains_key(MARK);
        assert_eq!(made.as_ref().map(marked), (name == "after").then_some(true));
        drop(held);
        ward.again().await?;
        let given = ward.askers.belongs(name, &pod).await?;
        ensure!(
            made.is_none_or(|made| made.uid() == given.uid()),
            "{name}: another claim"
        );
    }
    eventually("no claim awaits a pod", async || {
        let claims = &ward.askers.space.claims;
        let claims = claims.list_metadata(&ListParams::default()).await?;
        anyhow::Ok(
            claims
                .iter()
                .all(|claim| !claim.annotations().contains_key(MARK)),
        )
    })
    .await
}
