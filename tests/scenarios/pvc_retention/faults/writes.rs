//! Single writes that fail, arrive late, or meet a changed object.

use super::{Patient, claim_write, watch_of};
use crate::pvc_retention::support::{DELETE_DELETE, DELETE_RETAIN, RETAIN_DELETE, RETAIN_RETAIN};
use anyhow::{Result, ensure};
use serde_json::json;
use volume_warden_controlplane::{Rule, eventually};

/// Changes a rule into a fault.
type Fault = fn(Rule) -> Rule;

/// STS-31: a missing claim is no failure of its set; when the watch delivers the claim, it gets
/// its owner.
#[tokio::test]
async fn a_missing_claim_is_owned_when_it_appears() -> Result<()> {
    let patient = Patient::new("missing-claim").await?;
    let (sets, space) = (&patient.sets, &patient.sets.space);
    let _warden = patient.start().await?;
    sets.create("web", 1, DELETE_RETAIN).await?;
    sets.claim_is_owned_by("data-web-0", &["StatefulSet/web"])
        .await?;
    space.delete_claim("data-web-0").await?;
    space.claim_is_gone("data-web-0").await?;
    sets.settled().await?;
    let frozen = patient
        .between
        .add(watch_of("persistentvolumeclaims").freeze_stream());
    frozen.held(1).await?;
    space.create_claim("data-web-0").await?;
    sets.patch(
        "web",
        json!({"metadata": {"annotations": {"example.com/touched": "yes"}}}),
    )
    .await?;
    drop(frozen);
    sets.claim_is_owned_by("data-web-0", &["StatefulSet/web"])
        .await
}

/// STS-12 for Volume Warden: a patch that is refused, conflicts or is interrupted is eventually
/// written, owner and mark in one write.
#[tokio::test]
async fn a_failed_patch_is_retried() -> Result<()> {
    let patient = Patient::new("failed-patch").await?;
    let _warden = patient.start().await?;
    let faults: [(&str, Fault); 3] = [
        ("refused", |rule| {
            rule.respond(403, "Forbidden", "not on my watch")
        }),
        ("stale", |rule| {
            rule.respond(409, "Conflict", "another write was first")
        }),
        ("cut", Rule::cut),
    ];
    for (name, fault) in faults {
        let claim = format!("data-{name}-0");
        let failing = fault(claim_write("PATCH", &claim)).times(2);
        let failing = patient.between.add(failing);
        let set = patient.sets.create(name, 1, DELETE_DELETE).await?;
        let owner = format!("StatefulSet/{name}");
        patient.sets.claim_is_owned_by(&claim, &[&owner]).await?;
        let mark = set.metadata.uid.as_deref();
        patient.sets.claim_is_marked(&claim, mark).await?;
        assert_eq!((failing.taken(), patient.claim_writes_of(&claim)), (2, 3));
    }
    patient
        .event_says(
            "FailedUpdateOwnerReferences",
            "data-refused-0",
            "not on my watch",
        )
        .await
}

/// STS-52 for Volume Warden: a failed deletion is retried until the claim is gone.
#[tokio::test]
async fn a_failed_deletion_is_retried() -> Result<()> {
    let patient = Patient::new("failed-deletion").await?;
    let _warden = patient.start().await?;
    patient.sets.create("web", 1, RETAIN_DELETE).await?;
    let faults: [(u32, Fault); 3] = [
        (7, |rule| rule.respond(403, "Forbidden", "not on my watch")),
        (8, |rule| {
            rule.respond(409, "Conflict", "another write was first")
        }),
        (9, Rule::cut),
    ];
    for (ordinal, fault) in faults {
        let name = format!("data-web-{ordinal}");
        let failing = fault(claim_write("DELETE", &name)).times(2);
        let failing = patient.between.add(failing);
        patient.create_marked_claim(&name, "web").await?;
        patient.sets.space.claim_is_gone(&name).await?;
        assert_eq!((failing.taken(), patient.claim_writes_of(&name)), (2, 3));
    }
    patient
        .event_says("FailedDelete", "data-web-7", "not on my watch")
        .await
}

/// A deletion decided for one claim is not applied to the next claim of that name, which has no
/// mark.
#[tokio::test]
async fn a_late_deletion_spares_the_next_claim_of_that_name() -> Result<()> {
    let patient = Patient::new("late-deletion").await?;
    let space = &patient.sets.space;
    let _warden = patient.start().await?;
    patient.sets.create("web", 1, RETAIN_DELETE).await?;
    // Requests that time out and are retried also arrive eventually.
    let deletion = claim_write("DELETE", "data-web-5");
    let held = patient.between.add(deletion.postpone());
    patient.create_marked_claim("data-web-5", "web").await?;
    held.held(1).await?;
    space.delete_claim("data-web-5").await?;
    space.create_claim("data-web-5").await?;
    let next = patient.sets.uid_of_claim("data-web-5").await?;
    let (mark, late) = (space.cluster.audit().mark()?, held.taken());
    held.release();
    let codes = eventually("the late deletion was answered", async || {
        let calls = space.cluster.audit().since(mark)?;
        let deletions = calls.iter().filter(|call| {
            (call.verb.as_str(), call.name.as_str()) == ("delete", "data-web-5")
                && call.namespace == space.name
        });
        let codes = Vec::from_iter(deletions.map(|call| call.code));
        anyhow::Ok(Some(codes).filter(|codes| codes.len() >= late))
    })
    .await?;
    ensure!(codes.iter().all(|code| *code == 409), "{codes:?}");
    patient
        .event_says("ScaledDownUnmarked", "web", "data-web-5")
        .await?;
    assert_eq!(patient.sets.uid_of_claim("data-web-5").await?, next);
    Ok(())
}

/// A claim that got another owner while the watch was late is not overwritten.
#[tokio::test]
async fn a_claim_that_changed_meanwhile_is_not_overwritten() -> Result<()> {
    let patient = Patient::new("changed").await?;
    let (sets, space) = (&patient.sets, &patient.sets.space);
    let _warden = patient.start().await?;
    sets.create("web", 1, RETAIN_RETAIN).await?;
    sets.settled().await?;
    let claims = watch_of("persistentvolumeclaims");
    let frozen = patient.between.add(claims.freeze_stream());
    frozen.held(1).await?;
    let other = patient.foreign_owner(true).await?;
    space
        .patch_claim(
            "data-web-0",
            json!({"metadata": {"ownerReferences": [other]}}),
        )
        .await?;
    sets.set_policy("web", DELETE_DELETE).await?;
    eventually("the write was attempted", async || {
        patient.claim_writes_of("data-web-0") > 0
    })
    .await?;
    drop(frozen);
    patient
        .event_says("ConflictingController", "web", "data-web-0")
        .await?;
    let owners = sets.owners("data-web-0").await?;
    let names: Vec<_> = owners.iter().map(|owner| &*owner.name).collect();
    assert_eq!(names, ["other"]);
    sets.claim_is_marked("data-web-0", None).await
}
