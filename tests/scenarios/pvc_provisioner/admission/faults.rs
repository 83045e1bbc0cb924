//! Failures while pods are created. The pod is created nevertheless and eventually has its claim.

use super::{
    outage_fixture::OutageFixture,
    posted::{asked_for, heard, post, too_late},
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

/// Maximum number of pods created until a kill happens in time.
const ATTEMPTS: usize = 10;

/// Until the claim is bound it has a mark instead of an owner; one write replaces the mark with
/// the owner. Its pod gets the Event at once.
#[tokio::test]
async fn a_claim_awaits_its_pod_with_a_mark() -> Result<()> {
    let fixture = OutageFixture::new("marked", &[]).await?;
    let askers = &fixture.askers;
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
    askers.has_event(&name, "PVCProvisioned", &name).await?;
    askers.settled().await?;
    let pending = askers.claim(&name).await?;
    assert_eq!(pending.resource_version(), claim.resource_version());

    assert_eq!(askers.belongs(&name, &pod).await?.uid(), claim.uid());
    askers.settled().await?;
    assert_eq!(askers.pod_events(&name).await?.len(), 1);
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

/// The POST of a pod waits no longer than the webhook's timeout; the response has a warning, and
/// the claim is created later.
#[tokio::test]
async fn a_claim_that_cannot_be_made_at_once_is_made_later() -> Result<()> {
    let fixture = OutageFixture::new("not-at-once", &[]).await?;
    let askers = &fixture.askers;
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
        // The reconciler's attempts begin as soon as the pod exists, so some of them fail as well.
        let broken = fixture.between.add(fault);
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
        askers.has_event(&name, "PVCProvisioned", "created").await?;
    }
    Ok(())
}

/// The claim is created but the response is lost: the pod is created and gets the claim.
#[tokio::test]
async fn a_claim_whose_answer_was_lost_is_given_to_its_pod() -> Result<()> {
    let fixture = OutageFixture::new("lost", &[]).await?;
    let askers = &fixture.askers;
    let lost = fixture.between.add(claim_posts().hold_response());
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
    askers.has_event(&name, "PVCProvisioned", "created").await?;
    Ok(())
}

/// Volume Warden is killed while it creates the claim, before or after the API server stores it.
/// The POST does not wait for it; its successor gives the pod the existing claim, or creates one.
#[tokio::test]
async fn killed_while_a_pod_waits_for_its_claim() -> Result<()> {
    let mut fixture = OutageFixture::new("killed", &[]).await?;
    for (when, at) in [
        ("before", Rule::hold as fn(Rule) -> Rule),
        ("after", Rule::hold_response),
    ] {
        let (pod, made) = killed(&mut fixture, when, at).await?;
        let marked = |claim: &PersistentVolumeClaim| claim.annotations().contains_key(MARK);
        assert_eq!(made.as_ref().map(marked), (when == "after").then_some(true));
        let given = fixture.askers.belongs(&pod.name_any(), &pod).await?;
        ensure!(
            made.is_none_or(|made| made.uid() == given.uid()),
            "{when}: another claim"
        );
    }
    // Includes the pods that were created to test whether the webhook is called, and those of a
    // kill that came too late.
    for claim in fixture.askers.claims().await? {
        let marked = fixture.askers.claim(&claim).await?;
        if marked.annotations().contains_key(MARK) {
            fixture.askers.bind(&claim).await?;
        }
    }
    eventually("no claim awaits a pod", async || {
        let claims = &fixture.askers.space.claims;
        let claims = claims.list_metadata(&ListParams::default()).await?;
        anyhow::Ok(
            claims
                .iter()
                .all(|claim| !claim.annotations().contains_key(MARK)),
        )
    })
    .await
}

/// A pod whose review was interrupted by a kill, and the claim that existed then. On a busy
/// machine the kill may come after the API server continued without an answer: then another pod is
/// tried. Volume Warden runs again when this returns.
async fn killed(
    fixture: &mut OutageFixture,
    when: &str,
    at: fn(Rule) -> Rule,
) -> Result<(Pod, Option<PersistentVolumeClaim>)> {
    let cluster = fixture.askers.space.cluster;
    for attempt in 0..ATTEMPTS {
        // The API server calls the webhook by now.
        asked_for(&fixture.askers).await?;
        let name = format!("{when}{attempt}");
        // Otherwise the pod could get the claim in the time that is left before the kill.
        let gift = fixture.between.add(claim_write("PATCH", &name).hold());
        let held = fixture.between.add(at(claim_posts()));
        let open = too_late(cluster).await?;
        let pod = asking(&name, &name, json!({}))?;
        let (posted, in_time) = tokio::join!(post(&fixture.askers.space, &pod, ""), async {
            held.held(1).await?;
            let in_time = too_late(cluster).await? == open;
            fixture.warden.process().kill()?;
            anyhow::Ok(in_time)
        });
        let (posted, in_time) = (posted?, in_time?);
        ensure!(posted.code == 201, "{posted:?}");
        let made = fixture.askers.space.claims.get_opt(&name).await?;
        drop((held, gift));
        fixture.again().await?;
        if in_time {
            return Ok((posted.object()?, made));
        }
    }
    bail!("each kill came too late")
}
