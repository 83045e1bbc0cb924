//! Objects that are being deleted and in use: a drain leaves their finalizer, because nothing else
//! keeps them.

use super::support::{CLAIM_FINALIZER, DrainFixture, Drained, MAX_RUNS, VOLUME_FINALIZER};
use crate::support::on_node;
use anyhow::{Result, bail, ensure};
use kube::api::DeleteParams;
use serde_json::json;
use volume_warden_controlplane::{Rule, eventually};

#[tokio::test]
async fn objects_in_use_keep_their_finalizers_until_they_are_unused() -> Result<()> {
    let drain_fixture = DrainFixture::new("in-use").await?;
    let space = &drain_fixture.space;
    drain_fixture.create_claim("used", json!({})).await?;
    space.create_pod("user", "used", on_node()).await?;
    space.delete_claim("used").await?;
    drain_fixture.create_claim("unused", json!({})).await?;
    space
        .create_pod(
            "waiting",
            "unused",
            json!({"spec": {"nodeSelector": {"no": "node"}}}),
        )
        .await?;
    space.delete_claim("unused").await?;
    // The claim and its volume have no class, so that they can be bound.
    let name = format!("pv-{}", space.name);
    let bound = json!({"spec": {"storageClassName": "", "volumeName": name}});
    drain_fixture.create_claim("bound", bound).await?;
    let reference = json!({"namespace": space.name, "name": "bound"});
    drain_fixture
        .create_volume(json!({"spec": {"storageClassName": "", "claimRef": reference}}))
        .await?;
    phase_is(&drain_fixture, &name, "Bound").await?;
    space
        .volumes
        .delete(&name, &DeleteParams::default())
        .await?;

    let drained = drain_fixture.drain(&["--in-tree=off"]).await?;
    assert_eq!(
        (drained.code, &*drained.stderr),
        (Some(3), ""),
        "{drained:?}"
    );
    drained.prints(&[
        &format!("claim {}/used: left", space.name),
        "the pod user uses it",
    ])?;
    drained.prints(&[
        &format!("volume {name}: left"),
        &format!("bound to the claim {}/bound", space.name),
    ])?;
    drained.prints(&["left: 2 being deleted and in use"])?;
    assert_eq!(space.finalizers("used").await?, [CLAIM_FINALIZER]);
    assert_eq!(
        drain_fixture.volume_finalizers(&name).await?,
        [VOLUME_FINALIZER]
    );
    space.claim_is_gone("unused").await?;
    ensure!(
        space.finalizers("bound").await?.is_empty(),
        "a claim that is not being deleted keeps its finalizer"
    );

    space.delete_pod("user").await?;
    space.delete_claim("bound").await?;
    phase_is(&drain_fixture, &name, "Released").await?;
    let drained = drain_fixture.drain(&["--in-tree=off"]).await?;
    drained.left_nothing()?;
    space.claim_is_gone("used").await?;
    drain_fixture.volume_is_gone(&name).await
}

async fn phase_is(drain_fixture: &DrainFixture, volume: &str, phase: &str) -> Result<()> {
    eventually(&format!("volume {volume} is {phase}"), async || {
        let found = drain_fixture.space.volumes.get(volume).await?;
        let found = found.status.and_then(|status| status.phase);
        ensure!(found.as_deref() == Some(phase), "{found:?}");
        Ok(())
    })
    .await
}

/// Another client restores a finalizer that the drain removed, and may do so without end.
#[tokio::test]
async fn a_restored_finalizer_is_reported_and_left() -> Result<()> {
    let drain_fixture = DrainFixture::new("rewritten").await?;
    let space = &drain_fixture.space;
    drain_fixture.create_claim("data", json!({})).await?;
    for _ in 0..MAX_RUNS {
        let drained = drain_with_restored_finalizer(&drain_fixture).await?;
        // A drain that waits too long for the response does not know of the earlier removal, and
        // removes the finalizer like any other.
        if drained.code == Some(0) || drained.has_lost_a_lease() {
            continue;
        }
        drained.failed("on 1 objects another client wrote again")?;
        drain_fixture
            .drain(&["--in-tree=off"])
            .await?
            .left_nothing()?;
        assert_eq!(space.finalizers("data").await?, [""; 0]);
        return Ok(());
    }
    bail!("no drain reported the restored finalizer")
}

/// Drains the claim `data`. Its finalizer is restored before the drain receives the response to the
/// removal.
async fn drain_with_restored_finalizer(drain_fixture: &DrainFixture) -> Result<Drained> {
    let space = &drain_fixture.space;
    // As an older replica or Kubernetes' own controller writes it.
    let protected = json!({"metadata": {"finalizers": [CLAIM_FINALIZER]}});
    space.patch_claim("data", protected.clone()).await?;
    let path = format!("/{}/persistentvolumeclaims/data", space.name);
    let response = Rule::on("PATCH").path_contains(path).hold_response();
    let response = drain_fixture.interposer.add(response);
    let drain = tokio::spawn(drain_fixture.command(&["--in-tree=off"]).output());
    response.held(1).await?;
    space.patch_claim("data", protected).await?;
    response.release();
    Drained::from_output(drain.await??)
}
