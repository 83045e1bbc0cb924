//! What goes wrong while pods are created. The pod is created all the same, and has its claim in the end.

use super::{
    posted::{asked_for, heard, post, too_late},
    ward::Ward,
};
use crate::pvc_provisioner::{
    patient::{claim_posts, claim_write},
    support::{ID, LABEL, MARK, asking},
};
use anyhow::{Context, Result, bail, ensure};
use k8s_openapi::{
    api::core::v1::{PersistentVolumeClaim, Pod},
    jiff::Timestamp,
};
use kube::{ResourceExt, api::ListParams};
use serde_json::json;
use volume_warden_controlplane::{Rule, eventually};

/// So many pods are created for a kill that comes in time.
const ATTEMPTS: usize = 10;

/// Until it is bound the claim has a mark instead of an owner; one write changes one for the
/// other. Its pod is told at once.
#[tokio::test]
async fn a_claim_awaits_its_pod_with_a_mark() -> Result<()> {
    let ward = Ward::new("marked", &[]).await?;
    let askers = &ward.askers;
    let began = Timestamp::now();
    let (posted, claim) = asked_for(askers).await?;
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
    askers.is_told(&name, "PVCProvisioned", &name).await?;
    askers.settled().await?;
    let pending = askers.claim(&name).await?;
    assert_eq!(pending.resource_version(), claim.resource_version());

    assert_eq!(askers.belongs(&name, &pod).await?.uid(), claim.uid());
    askers.settled().await?;
    assert_eq!(askers.told(&name).await?.len(), 1);
    let calls = askers.space.cluster.audit().all()?;
    let calls = calls.by_user_agent("volume-warden/");
    let written = calls.iter().filter(|call| {
        (&*call.verb, &*call.resource) == ("patch", "persistentvolumeclaims")
            && (&call.namespace, &call.name) == (&askers.space.name, &name)
            && call.code == 200
    });
    assert_eq!(written.count(), 1);
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
        askers.is_told(&name, "PVCProvisioned", "created").await?;
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
    askers.is_told(&name, "PVCProvisioned", "created").await?;
    Ok(())
}

/// Volume Warden is killed while it makes the claim, before or after the API server has it. Nobody waits for it; its successor gives the
/// pod what there is, or makes it.
#[tokio::test]
async fn killed_while_a_pod_waits_for_its_claim() -> Result<()> {
    let mut ward = Ward::new("killed", &[]).await?;
    for (when, at) in [
        ("before", Rule::hold as fn(Rule) -> Rule),
        ("after", Rule::hold_response),
    ] {
        let (pod, made) = killed(&mut ward, when, at).await?;
        let marked = |claim: &PersistentVolumeClaim| claim.annotations().contains_key(MARK);
        assert_eq!(made.as_ref().map(marked), (when == "after").then_some(true));
        let given = ward.askers.belongs(&pod.name_any(), &pod).await?;
        ensure!(
            made.is_none_or(|made| made.uid() == given.uid()),
            "{when}: another claim"
        );
    }
    // Also those of the pods that were created to see whether the webhook is heard, and for a kill
    // that came too late.
    for claim in ward.askers.claims().await? {
        let marked = ward.askers.claim(&claim).await?;
        if marked.annotations().contains_key(MARK) {
            ward.askers.bind(&claim).await?;
        }
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

/// A pod whose review was cut short by a kill, and the claim that was there then. On a busy machine the kill may come when the API
/// server has gone on without an answer: then another pod is tried. Volume Warden runs again when this returns.
async fn killed(
    ward: &mut Ward,
    when: &str,
    at: fn(Rule) -> Rule,
) -> Result<(Pod, Option<PersistentVolumeClaim>)> {
    let cluster = ward.askers.space.cluster;
    for attempt in 0..ATTEMPTS {
        // The API server has heard of the webhook by now.
        asked_for(&ward.askers).await?;
        let name = format!("{when}{attempt}");
        // Once the pod is there it would be given the claim, in the time that is left before the kill.
        let gift = ward.between.add(claim_write("PATCH", &name).hold());
        let held = ward.between.add(at(claim_posts()));
        let open = too_late(cluster).await?;
        let pod = asking(&name, &name, json!({}))?;
        let (posted, in_time) = tokio::join!(post(&ward.askers.space, &pod, ""), async {
            held.held(1).await?;
            let in_time = too_late(cluster).await? == open;
            ward.warden.process().kill()?;
            anyhow::Ok(in_time)
        });
        let (posted, in_time) = (posted?, in_time?);
        ensure!(posted.code == 201, "{posted:?}");
        let made = ward.askers.space.claims.get_opt(&name).await?;
        drop((held, gift));
        ward.again().await?;
        if in_time {
            return Ok((posted.object()?, made));
        }
    }
    bail!("each kill came too late")
}
