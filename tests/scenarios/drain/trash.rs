//! Volumes in the trash: kept, or purged on request.

use super::support::DrainFixture;
use anyhow::{Result, ensure};
use kube::ResourceExt;
use serde_json::json;
use std::{fs, path::Path};
use volume_warden_controlplane::eventually;

const TRASH: &str = "volume-warden.dev/trash";

#[tokio::test]
async fn volumes_in_the_trash_are_purged_only_on_request() -> Result<()> {
    let drain_fixture = DrainFixture::new("drained-trash").await?;
    let space = &drain_fixture.space;
    let name = format!("pv-{}", space.name);
    let directory = format!("/tmp/{name}");
    fs::create_dir_all(&directory)?;
    fs::write(format!("{directory}/file"), "kept")?;
    let now = k8s_openapi::jiff::Timestamp::now().to_string();
    let claim = json!({"namespace": space.name, "name": "data", "uid": "gone"});
    let record =
        json!({"policy": "Delete", "windowSeconds": 3600, "claim": claim, "deletedAt": now});
    drain_fixture
        .create_volume(json!({
            "metadata": {"annotations": {TRASH: record.to_string()}},
            "spec": {"storageClassName": "", "claimRef": claim},
        }))
        .await?;
    eventually("the volume is Released", async || {
        let volume = space.volumes.get(&name).await?;
        let phase = volume.status.and_then(|status| status.phase);
        ensure!(phase.as_deref() == Some("Released"), "{phase:?}");
        Ok(())
    })
    .await?;

    let drained = drain_fixture.drain(&["--in-tree=off"]).await?;
    drained.prints(&[
        &format!("volume {name}: what pvc-trash wrote is left"),
        "in the trash",
    ])?;
    ensure!(drained.code == Some(0), "{drained:?}");
    let purge = ["--in-tree=off", "--purge-trash"];
    let dry_run = drain_fixture
        .drain(&[&purge[..], &["--dry-run"]].concat())
        .await?;
    let reason = "without it, the data of the deleted claim";
    dry_run.prints(&[&format!("volume {name}: would remove"), reason])?;
    let volume = space.volumes.get(&name).await?;
    ensure!(volume.annotations().contains_key(TRASH));
    ensure!(Path::new(&directory).join("file").exists());

    let drained = drain_fixture.drain(&purge).await?;
    drained.prints(&[&format!("volume {name}: removed"), reason])?;
    drained.left_nothing()?;
    drain_fixture.volume_is_gone(&name).await?;
    ensure!(
        !Path::new(&directory).exists(),
        "the data of the volume still exists"
    );
    Ok(())
}

/// A drain of one namespace does not know whether a claim of another namespace requests a volume.
#[tokio::test]
async fn volumes_of_one_namespace_are_not_purged() -> Result<()> {
    let drain_fixture = DrainFixture::new("drained-partly").await?;
    let arguments = ["--in-tree=off", "--purge-trash", "--namespace=default"];
    let drained = drain_fixture.drain(&arguments).await?;
    ensure!(drained.code == Some(2), "{drained:?}");
    ensure!(drained.stderr.contains("--namespace"), "{drained:?}");
    Ok(())
}
