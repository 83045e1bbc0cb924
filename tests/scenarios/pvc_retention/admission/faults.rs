//! Admission of claims when the watch is late or live reads fail. Each scenario has a cluster for
//! itself: only its Volume Warden, behind an interposer, serves the webhooks.

use super::{
    fixture::{CONTROLLER, LiveReads, NEITHER, OwnerAndMarker, PROTECTION},
    outage_fixture::{OutageFixture, PATH},
};
use crate::{
    pvc_retention::support::{
        DELETE_DELETE, DELETE_RETAIN, Policy, RETAIN_DELETE, RETAIN_RETAIN, set,
    },
    support::claim,
};
use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::api::{DeleteParams, PostParams};
use serde_json::json;
use volume_warden_controlplane::{Rule, eventually};

/// The cache still contains the set, but a live read finds no such set: the claim is refused.
#[tokio::test]
async fn a_claim_is_refused_although_the_cache_still_contains_its_set() -> Result<()> {
    let fixture = OutageFixture::new("late-watch").await?;
    let admission = &fixture.admission;
    let uid = admission
        .create_set("web", DELETE_RETAIN, json!({}))
        .await?;
    admission
        .is_created(
            "data-web-1",
            OwnerAndMarker {
                owner: Some(&uid),
                marker: None,
            },
        )
        .await?;
    let _frozen = fixture.freeze_watch_of_sets().await?;
    admission
        .delete_set("web", &DeleteParams::background())
        .await?;
    admission.is_refused("data-web-1").await
}

/// The set is recreated, and the cache still contains the deleted set of this name. A new claim
/// belongs to the existing set: with the uid of the deleted set, the garbage collector would delete
/// the claim while its pod uses it.
#[tokio::test]
async fn a_claim_of_a_recreated_set_gets_the_existing_set_as_owner() -> Result<()> {
    let fixture = OutageFixture::new("recreated").await?;
    let admission = &fixture.admission;
    let old = admission
        .create_set("web", DELETE_DELETE, json!({}))
        .await?;
    admission
        .is_created(
            "data-web-1",
            OwnerAndMarker {
                owner: Some(&old),
                marker: Some(&old),
            },
        )
        .await?;
    let _frozen = fixture.freeze_watch_of_sets().await?;
    admission
        .delete_set("web", &DeleteParams::background())
        .await?;
    let new = admission
        .create_set("web", DELETE_DELETE, json!({}))
        .await?;
    admission
        .is_created(
            "data-web-1",
            OwnerAndMarker {
                owner: Some(&new),
                marker: Some(&new),
            },
        )
        .await
}

/// The creation of a claim waits for the live read no longer than the timeout of the webhook. If
/// the live read fails, the claim gets no owner, although the cache contains its set: the
/// reconciler adds the owner later.
#[tokio::test]
async fn a_claim_gets_no_owner_when_the_live_read_fails() -> Result<()> {
    let fixture = OutageFixture::new("no-read").await?;
    let admission = &fixture.admission;
    let uid = admission
        .create_set("web", DELETE_RETAIN, json!({}))
        .await?;
    let expected = OwnerAndMarker {
        owner: Some(&uid),
        marker: None,
    };
    admission.is_created("data-web-1", expected).await?;
    let read = || {
        Rule::on("GET").path_contains(format!(
            "/namespaces/{}/statefulsets/web",
            admission.sets.space.name
        ))
    };
    for rule in [
        read().respond(500, "InternalError", "not today"),
        read().respond(403, "Forbidden", "not to you"),
        read().cut(),
        read().hold(),
    ] {
        let broken = fixture.interposer.add(rule);
        admission
            .is_created_without_live_read("data-web-1", NEITHER)
            .await?;
        ensure!(broken.taken() > 0, "the set was not read live");
    }
    Ok(())
}

/// A set that the watch has not delivered yet is read live. So is a set that was created and
/// deleted before the watch delivered it: its claim is refused.
#[tokio::test]
async fn a_set_that_the_watch_has_not_delivered_is_read_live() -> Result<()> {
    let fixture = OutageFixture::new("too-new").await?;
    let admission = &fixture.admission;
    let _frozen = fixture.freeze_watch_of_sets().await?;
    let uid = admission
        .create_set("web", DELETE_DELETE, json!({}))
        .await?;
    let expected = OwnerAndMarker {
        owner: Some(&uid),
        marker: Some(&uid),
    };
    admission.is_created("data-web-1", expected).await?;
    admission
        .delete_set("web", &DeleteParams::background())
        .await?;
    admission.is_refused("data-web-1").await?;
    // If the live read fails, the claim is created: the reconciler handles it later.
    let broken = Rule::on("GET").path_contains("/statefulsets/");
    let _broken = fixture
        .interposer
        .add(broken.respond(500, "InternalError", "not today"));
    admission
        .is_created_without_live_read("data-web-1", NEITHER)
        .await
}

/// With `--namespace`, the webhook neither changes nor refuses claims of other namespaces, because
/// Volume Warden does not watch the sets there.
#[tokio::test]
async fn claims_of_other_namespaces_get_neither_owner_nor_marker() -> Result<()> {
    let fixture = OutageFixture::with_arguments("elsewhere", &["--namespace=default"]).await?;
    let admission = &fixture.admission;
    admission
        .create_set("web", DELETE_DELETE, json!({}))
        .await?;
    admission.is_created("data-web-1", NEITHER).await?;
    admission.is_created("data-absent-1", NEITHER).await
}

/// STS-115..118: claims that the StatefulSet controller creates have their owner and marker from
/// the beginning. The interposer holds the patches of the reconciler, so only the webhook can have
/// added them.
#[tokio::test]
async fn claims_have_owner_and_marker_from_their_creation() -> Result<()> {
    let fixture = OutageFixture::new("born").await?;
    let no_patches = Rule::on("PATCH").path_contains("/persistentvolumeclaims/");
    let _held = fixture.interposer.add(no_patches.hold());
    for (name, policy) in [
        ("rr", RETAIN_RETAIN),
        ("rd", RETAIN_DELETE),
        ("dr", DELETE_RETAIN),
        ("dd", DELETE_DELETE),
    ] {
        let (uid, claim) = create_reviewed_claim(&fixture, name, policy).await?;
        let expected = OwnerAndMarker {
            owner: Some(uid.as_str()).filter(|_| policy.0 == "Delete"),
            marker: Some(uid.as_str()).filter(|_| policy.1 == "Delete"),
        };
        expected.matches(&claim).with_context(|| name.to_owned())?;
    }
    Ok(())
}

/// Creates a set with one replica, and returns its uid and its claim, which was reviewed in time.
/// Repeats this with another set if the review was too late, as on a busy machine.
async fn create_reviewed_claim(
    fixture: &OutageFixture,
    name: &str,
    policy: Policy,
) -> Result<(String, PersistentVolumeClaim)> {
    let sets = &fixture.admission.sets;
    for attempt in 0..5 {
        let before = fixture.admission.timeouts(LiveReads::MayTimeOut).await?;
        let wanted = set(&format!("{name}{attempt}"), 1, policy, json!({}))?;
        let created = sets.sets.create(&PostParams::default(), &wanted).await?;
        let claim = eventually("the claim exists", async || {
            sets.space
                .claims
                .get_opt(&format!("data-{name}{attempt}-0"))
                .await
        })
        .await?;
        if fixture.admission.timeouts(LiveReads::MayTimeOut).await? == before {
            let finalizers = claim.metadata.finalizers.as_deref().unwrap_or_default();
            ensure!(finalizers == [PROTECTION], "not reviewed: {finalizers:?}");
            return Ok((created.metadata.uid.context("a uid")?, claim));
        }
    }
    anyhow::bail!("the webhook did not answer in time in any attempt")
}

/// The webhook of `pvc-retention` also adds the finalizer of `pvc-protection` to claims of the
/// StatefulSet controller. The webhook of `pvc-trash` adds it to claims that may restore data. The
/// webhook of `pvc-protection` is called for none of these claims.
#[tokio::test]
async fn the_finalizer_needs_no_second_webhook_call() -> Result<()> {
    let fixture = OutageFixture::new("one-call").await?;
    let admission = &fixture.admission;
    let uid = admission
        .create_set("web", DELETE_DELETE, json!({}))
        .await?;
    let expected = OwnerAndMarker {
        owner: Some(&uid),
        marker: Some(&uid),
    };
    let protection = fixture.reviews("/pvc-protection/claims", "").await?;
    let retention = fixture.reviews(PATH, "").await?;
    for _ in 0..3 {
        admission.is_created("data-web-1", expected).await?;
    }
    ensure!(fixture.reviews(PATH, "").await? >= retention + 3);
    assert_eq!(
        fixture.reviews("/pvc-protection/claims", "").await?,
        protection
    );
    let trash = fixture.reviews("/pvc-trash/claims", "").await?;
    let of_a_user = claim("data-web-1", json!({}))?;
    admission.is_created_by("jane", of_a_user, NEITHER).await?;
    ensure!(fixture.reviews("/pvc-trash/claims", "").await? > trash);
    assert_eq!(
        fixture.reviews("/pvc-protection/claims", "").await?,
        protection
    );
    Ok(())
}

/// With the flag `--dry-run`, the webhook computes the patch of a claim, and does not change the
/// claim.
#[tokio::test]
async fn with_dry_run_the_webhook_changes_no_claim() -> Result<()> {
    let fixture = OutageFixture::with_arguments("dry", &["--dry-run"]).await?;
    fixture
        .admission
        .create_set("web", DELETE_DELETE, json!({}))
        .await?;
    let wanted = claim("data-web-1", json!({}))?;
    eventually(
        "the webhook reports a patch that it does not send",
        async || {
            let created = fixture.admission.dry_run(CONTROLLER, &wanted).await?;
            let is_unchanged =
                created.metadata.finalizers.is_none() && NEITHER.matches(&created).is_ok();
            // A changed claim ends the wait, and the test fails at once.
            if !is_unchanged {
                return Ok(Some(Err(anyhow::anyhow!("{:?}", created.metadata))));
            }
            let patched = fixture.reviews(PATH, "Patched").await?;
            anyhow::Ok(Some(Ok(())).filter(|_| patched > 0))
        },
    )
    .await?
}
