//! Admission when the watch is late and live reads fail. Each scenario has exclusive use of a
//! cluster's webhooks: only its Volume Warden, behind an interposer, answers.

use super::{
    births::{CONTROLLER, NOTHING, PROTECTION, Reads, Stamps},
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

/// The cache still has the set, a live read does not.
#[tokio::test]
async fn a_claim_is_refused_although_the_watch_still_has_its_set() -> Result<()> {
    let fixture = OutageFixture::new("late-watch").await?;
    let births = &fixture.births;
    let uid = births.set("web", DELETE_RETAIN, json!({})).await?;
    births
        .is_born(
            "data-web-1",
            Stamps {
                owner: Some(&uid),
                mark: None,
            },
        )
        .await?;
    let _frozen = fixture.freeze_sets().await?;
    births
        .delete_set("web", &DeleteParams::background())
        .await?;
    births.is_refused("data-web-1").await
}

/// The cache still has the set's predecessor. A claim created now belongs to the existing set:
/// with the old uid the garbage collector would delete it while its pod uses it.
#[tokio::test]
async fn a_claim_is_stamped_with_the_set_that_is_there() -> Result<()> {
    let fixture = OutageFixture::new("recreated").await?;
    let births = &fixture.births;
    let old = births.set("web", DELETE_DELETE, json!({})).await?;
    births
        .is_born(
            "data-web-1",
            Stamps {
                owner: Some(&old),
                mark: Some(&old),
            },
        )
        .await?;
    let _frozen = fixture.freeze_sets().await?;
    births
        .delete_set("web", &DeleteParams::background())
        .await?;
    let new = births.set("web", DELETE_DELETE, json!({})).await?;
    births
        .is_born(
            "data-web-1",
            Stamps {
                owner: Some(&new),
                mark: Some(&new),
            },
        )
        .await
}

/// Creating a claim waits for the live read no longer than the webhook's timeout. The claim gets
/// no owner from the watch: the reconciler adds it later.
#[tokio::test]
async fn a_claim_gets_no_owner_when_the_live_read_fails() -> Result<()> {
    let fixture = OutageFixture::new("no-read").await?;
    let births = &fixture.births;
    let uid = births.set("web", DELETE_RETAIN, json!({})).await?;
    let stamps = Stamps {
        owner: Some(&uid),
        mark: None,
    };
    births.is_born("data-web-1", stamps).await?;
    let read = || {
        Rule::on("GET").path_contains(format!(
            "/namespaces/{}/statefulsets/web",
            births.0.space.name
        ))
    };
    for rule in [
        read().respond(500, "InternalError", "not today"),
        read().respond(403, "Forbidden", "not to you"),
        read().cut(),
        read().hold(),
    ] {
        let broken = fixture.interposer.add(rule);
        births.is_born_unread("data-web-1", NOTHING).await?;
        ensure!(broken.taken() > 0, "the set was not read live");
    }
    Ok(())
}

/// A set that the watch has not delivered yet is read live, and so is one that was created and
/// deleted before the watch delivered it.
#[tokio::test]
async fn a_set_that_is_too_new_for_the_watch_is_read() -> Result<()> {
    let fixture = OutageFixture::new("too-new").await?;
    let births = &fixture.births;
    let _frozen = fixture.freeze_sets().await?;
    let uid = births.set("web", DELETE_DELETE, json!({})).await?;
    let stamps = Stamps {
        owner: Some(&uid),
        mark: Some(&uid),
    };
    births.is_born("data-web-1", stamps).await?;
    births
        .delete_set("web", &DeleteParams::background())
        .await?;
    births.is_refused("data-web-1").await?;
    // If the live read fails, the claim is admitted: the reconciler handles it later.
    let broken = Rule::on("GET").path_contains("/statefulsets/");
    let _broken = fixture
        .interposer
        .add(broken.respond(500, "InternalError", "not today"));
    births.is_born_unread("data-web-1", NOTHING).await
}

/// With `--namespace` Volume Warden does not know the sets of other namespaces.
#[tokio::test]
async fn claims_of_other_namespaces_are_left_alone() -> Result<()> {
    let fixture = OutageFixture::with_arguments("elsewhere", &["--namespace=default"]).await?;
    let births = &fixture.births;
    births.set("web", DELETE_DELETE, json!({})).await?;
    births.is_born("data-web-1", NOTHING).await?;
    births.is_born("data-absent-1", NOTHING).await
}

/// STS-115..118: claims of the StatefulSet controller are created with their stamps; the
/// reconciler's writes are blocked here.
#[tokio::test]
async fn what_the_controller_creates_is_born_stamped() -> Result<()> {
    let fixture = OutageFixture::new("born").await?;
    let no_patches = Rule::on("PATCH").path_contains("/persistentvolumeclaims/");
    let _held = fixture.interposer.add(no_patches.hold());
    for (name, policy) in [
        ("rr", RETAIN_RETAIN),
        ("rd", RETAIN_DELETE),
        ("dr", DELETE_RETAIN),
        ("dd", DELETE_DELETE),
    ] {
        let (uid, claim) = reviewed_birth(&fixture, name, policy).await?;
        let stamps = Stamps {
            owner: Some(uid.as_str()).filter(|_| policy.0 == "Delete"),
            mark: Some(uid.as_str()).filter(|_| policy.1 == "Delete"),
        };
        stamps.are_on(&claim).with_context(|| name.to_owned())?;
    }
    Ok(())
}

/// The uid of a set and the claim of its one pod, reviewed by a Volume Warden that knew the set.
/// Tries a few sets, but only because on a busy machine a review may be too late.
async fn reviewed_birth(
    fixture: &OutageFixture,
    name: &str,
    policy: Policy,
) -> Result<(String, PersistentVolumeClaim)> {
    let sets = &fixture.births.0;
    for attempt in 0..5 {
        let before = fixture.births.late(Reads::MayBeLate).await?;
        let wanted = set(&format!("{name}{attempt}"), 1, policy, json!({}))?;
        let created = sets.sets.create(&PostParams::default(), &wanted).await?;
        let claim = eventually("the claim exists", async || {
            sets.space
                .claims
                .get_opt(&format!("data-{name}{attempt}-0"))
                .await
        })
        .await?;
        if fixture.births.late(Reads::MayBeLate).await? == before {
            let finalizers = claim.metadata.finalizers.as_deref().unwrap_or_default();
            ensure!(finalizers == [PROTECTION], "not reviewed: {finalizers:?}");
            return Ok((created.metadata.uid.context("a uid")?, claim));
        }
    }
    anyhow::bail!("the webhook never answered in time")
}

/// One webhook adds the finalizer and the stamps: the webhook of pvc-protection is called neither for
/// this user nor for a claim that may restore data.
#[tokio::test]
async fn one_call_serves_both_components() -> Result<()> {
    let fixture = OutageFixture::new("one-call").await?;
    let births = &fixture.births;
    let uid = births.set("web", DELETE_DELETE, json!({})).await?;
    let stamps = Stamps {
        owner: Some(&uid),
        mark: Some(&uid),
    };
    let others = fixture.reviews("/pvc-protection/claims", "").await?;
    let retention = fixture.reviews(PATH, "").await?;
    for _ in 0..3 {
        births.is_born("data-web-1", stamps).await?;
    }
    ensure!(fixture.reviews(PATH, "").await? >= retention + 3);
    assert_eq!(fixture.reviews("/pvc-protection/claims", "").await?, others);
    let trash = fixture.reviews("/pvc-trash/claims", "").await?;
    let of_a_person = claim("data-web-1", json!({}))?;
    births.is_born_to("jane", of_a_person, NOTHING).await?;
    ensure!(fixture.reviews("/pvc-trash/claims", "").await? > trash);
    assert_eq!(fixture.reviews("/pvc-protection/claims", "").await?, others);
    Ok(())
}

/// `--dry-run` of Volume Warden itself: computes the stamps, and writes nothing.
#[tokio::test]
async fn a_dry_run_stamps_nothing() -> Result<()> {
    let fixture = OutageFixture::with_arguments("dry", &["--dry-run"]).await?;
    fixture.births.set("web", DELETE_DELETE, json!({})).await?;
    let wanted = claim("data-web-1", json!({}))?;
    eventually("the dry run would stamp the claim", async || {
        let created = fixture.births.dry_run(CONTROLLER, &wanted).await?;
        let untouched = created.metadata.finalizers.is_none() && NOTHING.are_on(&created).is_ok();
        // Fails at once instead of waiting.
        if !untouched {
            return Ok(Some(Err(anyhow::anyhow!("{:?}", created.metadata))));
        }
        let patched = fixture.reviews(PATH, "Patched").await?;
        anyhow::Ok(Some(Ok(())).filter(|_| patched > 0))
    })
    .await?
}
