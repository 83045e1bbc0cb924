//! What is being deleted and in use is held by nothing but its finalizer.

use super::support::{CLAIM_FINALIZER, Drained, RUNS, Stage, VOLUME_FINALIZER};
use crate::support::on_node;
use anyhow::{Result, bail, ensure};
use kube::api::DeleteParams;
use serde_json::json;
use volume_warden_controlplane::{Rule, eventually};

#[tokio::test]
async fn what_is_in_use_is_left_until_it_is_not() -> Result<()> {
    let stage = Stage::new("in-use").await?;
    let space = &stage.space;
    stage.create_claim("used", json!({})).await?;
    space.create_pod("user", "used", on_node()).await?;
    space.delete_claim("used").await?;
    stage.create_claim("unused", json!({})).await?;
    space
        .create_pod(
            "waiting",
            "unused",
            json!({"spec": {"nodeSelector": {"no": "node"}}}),
        )
        .await?;
    space.delete_claim("unused").await?;
    // Of no class, so that a volume can be named.
    let name = format!("pv-{}", space.name);
    let bound = json!({"spec": {"storageClassName": "", "volumeName": name}});
    stage.create_claim("bound", bound).await?;
    let reference = json!({"namespace": space.name, "name": "bound"});
    stage
        .create_volume(json!({"spec": {"storageClassName": "", "claimRef": reference}}))
        .await?;
    phase_is(&stage, &name, "Bound").await?;
    space
        .volumes
        .delete(&name, &DeleteParams::default())
        .await?;

    let drained = stage.drain(&["--in-tree=off"]).await?;
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
    assert_eq!(stage.volume_finalizers(&name).await?, [VOLUME_FINALIZER]);
    space.claim_is_gone("unused").await?;
    ensure!(
        space.finalizers("bound").await?.is_empty(),
        "a living claim"
    );

    space.delete_pod("user").await?;
    space.delete_claim("bound").await?;
    phase_is(&stage, &name, "Released").await?;
    let drained = stage.drain(&["--in-tree=off"]).await?;
    drained.left_nothing()?;
    space.claim_is_gone("used").await?;
    stage.volume_is_gone(&name).await
}

async fn phase_is(stage: &Stage, volume: &str, phase: &str) -> Result<()> {
    eventually(&format!("volume {volume} is {phase}"), async || {
        let found = stage.space.volumes.get(volume).await?;
        let found = found.status.and_then(|status| status.phase);
        ensure!(found.as_deref() == Some(phase), "{found:?}");
        Ok(())
    })
    .await
}

/// A client that restores the finalizer would do so indefinitely.
#[tokio::test]
async fn what_is_written_again_is_reported_and_left() -> Result<()> {
    let stage = Stage::new("rewritten").await?;
    let space = &stage.space;
    stage.create_claim("data", json!({})).await?;
    for _ in 0..RUNS {
        let drained = written_anew(&stage).await?;
        // A drain that waits too long for the answer does not know of the earlier removal, and
        // removes the finalizer like any other.
        if drained.code == Some(0) || drained.has_lost_a_lease() {
            continue;
        }
        drained.failed("on 1 objects another client wrote again")?;
        stage.drain(&["--in-tree=off"]).await?.left_nothing()?;
        assert_eq!(space.finalizers("data").await?, [""; 0]);
        return Ok(());
    }
    bail!("a repeated write is never reported")
}

/// A drain of the protected claim `data`, which is protected again before the drain knows that it
/// no longer is.
async fn written_anew(stage: &Stage) -> Result<Drained> {
    let space = &stage.space;
    // As an older replica writes it, or Kubernetes' own controller.
    let protected = json!({"metadata": {"finalizers": [CLAIM_FINALIZER]}});
    space.patch_claim("data", protected.clone()).await?;
    let path = format!("/{}/persistentvolumeclaims/data", space.name);
    let answer = Rule::on("PATCH").path_contains(path).hold_response();
    let answer = stage.interposer.add(answer);
    let drain = tokio::spawn(stage.command(&["--in-tree=off"]).output());
    answer.held(1).await?;
    space.patch_claim("data", protected).await?;
    answer.release();
    Drained::of(drain.await??)
}
