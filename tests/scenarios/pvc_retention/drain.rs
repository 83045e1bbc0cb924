//! `volume-warden drain` removes references and marks, as if every policy were Retain.

mod scene;

use super::faults::claim_write;
use crate::support::claim;
use anyhow::{Result, ensure};
use kube::api::PostParams;
use scene::Scene;
use serde_json::json;

/// The claims that are changed, as named in the output.
const CHANGED: [&str; 6] = [
    "data-dd-0",
    "data-dd-1",
    "data-dr-0",
    "data-dr-1",
    "data-rd-0",
    "data-rd-1",
];

/// Each claim of `names` has a line, and there is one more line, besides those about webhooks and
/// progress.
fn reports(stdout: &str, names: &[&str]) -> Result<()> {
    let others = |line: &&str| !line.ends_with(" done") && !line.starts_with("webhook ");
    let lines: Vec<_> = stdout.lines().filter(others).collect();
    for name in names {
        let count = lines.iter().filter(|line| line.contains(name)).count();
        ensure!(count == 1, "{name}: {stdout}");
    }
    ensure!(lines.len() == names.len() + 1, "{stdout}");
    Ok(())
}

/// For all policies; the references of other owners are kept, a second drain has nothing to do,
/// and a set deleted afterwards leaves its claims.
#[tokio::test]
async fn refs_and_marks_are_removed() -> Result<()> {
    let scene = Scene::in_the_middle_of_everything("drained").await?;
    let before = scene.claims().await?;
    let drained = scene.drain(&["--in-tree=off"]).await?;
    assert_eq!((drained.code, &*drained.stderr), (Some(0), ""));
    reports(&drained.stdout, &CHANGED)?;
    let after = scene.claims().await?;
    assert_eq!(after.len(), 8);
    for (name, seen) in &after {
        let others: &[&str] = if name == "data-dr-0" {
            &["ConfigMap/other"]
        } else {
            &[]
        };
        ensure!(seen.owners == others && !seen.marked, "{name}: {seen:?}");
    }
    // Claims without references or marks were not written.
    for name in ["data-rr-0", "data-rr-1"] {
        assert_eq!(after.get(name), before.get(name));
    }
    let again = scene.drain(&["--in-tree=off"]).await?;
    assert_eq!((again.code, &*again.stderr), (Some(0), ""));
    reports(&again.stdout, &[])?;
    assert_eq!(scene.claims().await?, after);
    scene.delete_all_sets().await?;
    assert_eq!(scene.claims().await?, after);
    Ok(())
}

/// A dry run reports the changes and writes nothing.
#[tokio::test]
async fn a_dry_drain_changes_nothing() -> Result<()> {
    let scene = Scene::in_the_middle_of_everything("dry-drain").await?;
    let (before, writes) = (scene.claims().await?, scene.stage.claim_writes());
    let drained = scene.drain(&["--in-tree=off", "--dry-run"]).await?;
    assert_eq!((drained.code, &*drained.stderr), (Some(0), ""));
    reports(&drained.stdout, &CHANGED)?;
    assert_eq!(scene.claims().await?, before);
    assert_eq!(scene.stage.claim_writes(), writes);
    Ok(())
}

/// With in-tree retention on, the references belong to Kubernetes.
#[tokio::test]
async fn with_in_tree_retention_only_marks_are_removed() -> Result<()> {
    let scene = Scene::in_the_middle_of_everything("marks").await?;
    let before = scene.claims().await?;
    let drained = scene.drain(&["--in-tree=on"]).await?;
    assert_eq!((drained.code, &*drained.stderr), (Some(0), ""));
    reports(
        &drained.stdout,
        &["data-dd-0", "data-dd-1", "data-rd-0", "data-rd-1"],
    )?;
    let after = scene.claims().await?;
    for (name, seen) in &after {
        ensure!(
            !seen.marked && seen.owners == before[name].owners,
            "{name}: {seen:?}"
        );
    }
    Ok(())
}

/// Kubernetes never updates the claim of an ordinal without a pod, so its reference would stay
/// forever.
#[tokio::test]
async fn with_in_tree_retention_claims_without_pods_are_released() -> Result<()> {
    let scene = Scene::in_the_middle_of_everything("podless").await?;
    let uid = scene.fixture.sets.sets.get("dr").await?.metadata.uid;
    let owner = json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "dr", "uid": uid, "controller": true});
    let podless = claim(
        "data-dr-7",
        json!({"metadata": {"ownerReferences": [owner]}}),
    )?;
    let claims = &scene.fixture.sets.space.claims;
    claims.create(&PostParams::default(), &podless).await?;
    let drained = scene.drain(&["--in-tree=on"]).await?;
    assert_eq!((drained.code, &*drained.stderr), (Some(0), ""));
    let after = scene.claims().await?;
    ensure!(
        after["data-dr-7"].owners.is_empty(),
        "{:?}",
        after["data-dr-7"]
    );
    ensure!(
        !after["data-dr-1"].owners.is_empty(),
        "{:?}",
        after["data-dr-1"]
    );
    Ok(())
}

/// The holder of the Lease would write references and marks again.
#[tokio::test]
async fn drain_refuses_while_a_volume_warden_runs() -> Result<()> {
    let scene = Scene::in_the_middle_of_everything("at-work").await?;
    let warden = scene.fixture.start().await?;
    scene.fixture.sets.settled().await?;
    let before = scene.claims().await?;
    let refused = scene.drain(&["--in-tree=off"]).await?;
    assert_eq!(refused.code, Some(1), "{}", refused.stderr);
    assert_eq!(refused.stderr.lines().count(), 1, "{}", refused.stderr);
    let says = refused.stderr.strip_prefix("volume-warden: the Lease ");
    ensure!(
        says.is_some_and(|words| words.contains("is held by")),
        "{}",
        refused.stderr
    );
    assert_eq!(scene.claims().await?, before);
    warden.stop().await?;
    let drained = scene.drain(&["--in-tree=off"]).await?;
    assert_eq!((drained.code, &*drained.stderr), (Some(0), ""));
    Ok(())
}

/// Failed changes are reported, the others are made, and the next drain completes them.
#[tokio::test]
async fn failed_changes_are_reported() -> Result<()> {
    let scene = Scene::in_the_middle_of_everything("forbidden").await?;
    let before = scene.claims().await?;
    let forbidden = claim_write("PATCH", "data-dr-1").respond(403, "Forbidden", "not to you");
    let forbidden = scene.stage.interposer.add(forbidden);
    let failed = scene.drain(&["--in-tree=off"]).await?;
    assert_eq!(failed.code, Some(1), "{}", failed.stdout);
    assert_eq!(failed.stderr.lines().count(), 1, "{}", failed.stderr);
    let reported = |words: &str| {
        failed
            .stdout
            .lines()
            .any(|line| line.contains("data-dr-1") && line.contains(words))
    };
    ensure!(reported("not to you"), "{}", failed.stdout);
    let after = scene.claims().await?;
    assert_eq!(after.get("data-dr-1"), before.get("data-dr-1"));
    ensure!(!after["data-rd-0"].marked, "{:?}", after["data-rd-0"]);
    drop(forbidden);
    let drained = scene.drain(&["--in-tree=off"]).await?;
    assert_eq!(drained.code, Some(0), "{}", drained.stderr);
    reports(&drained.stdout, &["data-dr-1"])?;
    ensure!(scene.claims().await?["data-dr-1"].owners.is_empty());
    Ok(())
}
