//! Admission when the watch is late and live reads go wrong. Each scenario has the webhooks of a cluster to itself: its Volume Warden
//! is behind an interposer, and nobody else answers.

use super::{
    births::{CONTROLLER, NOTHING, PROTECTION, Stamps},
    ward::{PATH, Ward},
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

/// The watch still has the set, a live read does not.
#[tokio::test]
async fn a_claim_is_refused_although_the_watch_still_has_its_set() -> Result<()> {
    let ward = Ward::new("late-watch").await?;
    let births = &ward.births;
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
    let _frozen = ward.freeze_sets().await?;
    births
        .delete_set("web", &DeleteParams::background())
        .await?;
    births.is_refused("data-web-1").await
}

/// The watch still has the set's predecessor. A claim born now is of the set there is: stamped with the old uid it would be collected
/// as garbage, under its pod.
#[tokio::test]
async fn a_claim_is_stamped_with_the_set_that_is_there() -> Result<()> {
    let ward = Ward::new("recreated").await?;
    let births = &ward.births;
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
    let _frozen = ward.freeze_sets().await?;
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

/// Whatever the live read comes to, creating a claim does not wait for it longer than the webhook may take.
#[tokio::test]
async fn a_claim_is_stamped_by_the_watch_when_the_live_read_fails() -> Result<()> {
    let ward = Ward::new("no-read").await?;
    let births = &ward.births;
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
        let broken = ward.between.add(rule);
        births.is_born("data-web-1", stamps).await?;
        ensure!(broken.taken() > 0, "the set was not read live");
    }
    Ok(())
}

/// A set that the watch has not told of yet is asked for, and so is one that came and went before the watch told.
#[tokio::test]
async fn a_set_that_is_too_new_for_the_watch_is_read() -> Result<()> {
    let ward = Ward::new("too-new").await?;
    let births = &ward.births;
    let _frozen = ward.freeze_sets().await?;
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
    // Where nobody can be asked nobody is refused: the reconciler will see to it.
    let broken = Rule::on("GET").path_contains("/statefulsets/");
    let _broken = ward
        .between
        .add(broken.respond(500, "InternalError", "not today"));
    births.is_born("data-web-1", NOTHING).await
}

/// Where only one namespace is looked after, nobody knows which sets there are in the others.
#[tokio::test]
async fn claims_of_other_namespaces_are_left_alone() -> Result<()> {
    let ward = Ward::with_arguments("elsewhere", &["--namespace=default"]).await?;
    let births = &ward.births;
    births.set("web", DELETE_DELETE, json!({})).await?;
    births.is_born("data-web-1", NOTHING).await?;
    births.is_born("data-nobody-1", NOTHING).await
}

/// STS-115..118: what Kubernetes itself creates is born with its stamps; no write of the reconciler comes through here.
#[tokio::test]
async fn what_the_controller_creates_is_born_stamped() -> Result<()> {
    let ward = Ward::new("born").await?;
    let no_patches = Rule::on("PATCH").path_contains("/persistentvolumeclaims/");
    let _held = ward.between.add(no_patches.hold());
    for (name, policy) in [
        ("rr", RETAIN_RETAIN),
        ("rd", RETAIN_DELETE),
        ("dr", DELETE_RETAIN),
        ("dd", DELETE_DELETE),
    ] {
        let (uid, claim) = reviewed_birth(&ward, name, policy).await?;
        let stamps = Stamps {
            owner: Some(uid.as_str()).filter(|_| policy.0 == "Delete"),
            mark: Some(uid.as_str()).filter(|_| policy.1 == "Delete"),
        };
        stamps.are_on(&claim).with_context(|| name.to_owned())?;
    }
    Ok(())
}

/// The uid of a set and the claim of its one pod, which was reviewed by who knew the set: of a few sets, for on a busy machine one may slip
/// by.
async fn reviewed_birth(
    ward: &Ward,
    name: &str,
    policy: Policy,
) -> Result<(String, PersistentVolumeClaim)> {
    let sets = &ward.births.0;
    for attempt in 0..5 {
        let unread = ward.unread();
        let wanted = set(&format!("{name}{attempt}"), 1, policy, json!({}))?;
        let created = sets.sets.create(&PostParams::default(), &wanted).await?;
        let claim = eventually("the claim is there", async || {
            sets.space
                .claims
                .get_opt(&format!("data-{name}{attempt}-0"))
                .await
        })
        .await?;
        let reviewed = claim.metadata.finalizers.as_deref() == Some(&[PROTECTION.to_owned()]);
        if reviewed && ward.unread() == unread {
            return Ok((created.metadata.uid.context("a uid")?, claim));
        }
    }
    anyhow::bail!("the webhook was never heard")
}

/// The finalizer comes with the stamps: the other webhook for claims is not called for this user.
#[tokio::test]
async fn one_call_serves_both_components() -> Result<()> {
    let ward = Ward::new("one-call").await?;
    let births = &ward.births;
    let uid = births.set("web", DELETE_DELETE, json!({})).await?;
    let stamps = Stamps {
        owner: Some(&uid),
        mark: Some(&uid),
    };
    let others = ward.reviews("/pvc-protection/claims", "").await?;
    let ours = ward.reviews(PATH, "").await?;
    for _ in 0..3 {
        births.is_born("data-web-1", stamps).await?;
    }
    ensure!(ward.reviews(PATH, "").await? >= ours + 3);
    assert_eq!(ward.reviews("/pvc-protection/claims", "").await?, others);
    let of_a_person = claim("data-web-1", json!({}))?;
    births.is_born_to("jane", of_a_person, NOTHING).await?;
    ensure!(ward.reviews("/pvc-protection/claims", "").await? > others);
    Ok(())
}

/// A dry run of Volume Warden itself: it knows what to write, and writes nothing.
#[tokio::test]
async fn a_dry_run_stamps_nothing() -> Result<()> {
    let ward = Ward::with_arguments("dry", &["--dry-run"]).await?;
    ward.births.set("web", DELETE_DELETE, json!({})).await?;
    let wanted = claim("data-web-1", json!({}))?;
    eventually("it would stamp the claim", async || {
        let created = ward.births.dry_run(CONTROLLER, &wanted).await?;
        let untouched = created.metadata.finalizers.is_none() && NOTHING.are_on(&created).is_ok();
        // Not something to wait for the end of.
        if !untouched {
            return Ok(Some(Err(anyhow::anyhow!("{:?}", created.metadata))));
        }
        let patched = ward.reviews(PATH, "Patched").await?;
        anyhow::Ok(Some(Ok(())).filter(|_| patched > 0))
    })
    .await?
}
