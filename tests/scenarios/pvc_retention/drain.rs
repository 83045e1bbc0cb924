//! `volume-warden drain` removes owner references and markers, as if every policy were Retain.

mod scene;

use super::faults::claim_write;
use crate::support::claim;
use anyhow::{Result, ensure};
use kube::api::PostParams;
use scene::Scene;
use serde_json::json;

/// The names of the claims that a drain with `--in-tree=off` changes.
const CHANGED: [&str; 6] = [
    "data-dd-0",
    "data-dd-1",
    "data-dr-0",
    "data-dr-1",
    "data-rd-0",
    "data-rd-1",
];

/// Checks that the output has exactly one line for each claim of `names`, and one more line. Lines
/// about webhooks and progress are not counted.
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

/// The drain removes the owner references and markers of Volume Warden under all policies, and
/// keeps the owner references to other objects. A second drain changes nothing. The claims are
/// kept when their sets are deleted afterwards.
#[tokio::test]
async fn owner_references_and_markers_are_removed() -> Result<()> {
    let scene = Scene::with_claims_in_all_states("drained").await?;
    let before = scene.claims().await?;
    let drained = scene.drain(&["--in-tree=off"]).await?;
    assert_eq!((drained.code, &*drained.stderr), (Some(0), ""));
    reports(&drained.stdout, &CHANGED)?;
    let after = scene.claims().await?;
    assert_eq!(after.len(), 8);
    for (name, state) in &after {
        let others: &[&str] = if name == "data-dr-0" {
            &["ConfigMap/other"]
        } else {
            &[]
        };
        ensure!(state.owners == others && !state.marked, "{name}: {state:?}");
    }
    // Claims without owner references or markers were not written.
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
    let scene = Scene::with_claims_in_all_states("dry-drain").await?;
    let (before, writes) = (scene.claims().await?, scene.drain_fixture.claim_writes());
    let drained = scene.drain(&["--in-tree=off", "--dry-run"]).await?;
    assert_eq!((drained.code, &*drained.stderr), (Some(0), ""));
    reports(&drained.stdout, &CHANGED)?;
    assert_eq!(scene.claims().await?, before);
    assert_eq!(scene.drain_fixture.claim_writes(), writes);
    Ok(())
}

/// With `--in-tree=on`, owner references of claims with a pod are kept, because the StatefulSet
/// controller of Kubernetes manages them.
#[tokio::test]
async fn with_in_tree_retention_only_markers_are_removed() -> Result<()> {
    let scene = Scene::with_claims_in_all_states("marks").await?;
    let before = scene.claims().await?;
    let drained = scene.drain(&["--in-tree=on"]).await?;
    assert_eq!((drained.code, &*drained.stderr), (Some(0), ""));
    reports(
        &drained.stdout,
        &["data-dd-0", "data-dd-1", "data-rd-0", "data-rd-1"],
    )?;
    let after = scene.claims().await?;
    for (name, state) in &after {
        ensure!(
            !state.marked && state.owners == before[name].owners,
            "{name}: {state:?}"
        );
    }
    Ok(())
}

/// With `--in-tree=on`, the owner reference of a claim without a pod is removed: Kubernetes never
/// updates such a claim, so the owner reference would stay forever.
#[tokio::test]
async fn with_in_tree_retention_claims_without_pods_lose_their_owners() -> Result<()> {
    let scene = Scene::with_claims_in_all_states("podless").await?;
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

/// The drain fails while a Volume Warden holds the Lease, because that process would add the owner
/// references and markers again.
#[tokio::test]
async fn drain_refuses_while_a_volume_warden_runs() -> Result<()> {
    let scene = Scene::with_claims_in_all_states("at-work").await?;
    let warden = scene.fixture.start().await?;
    scene.fixture.sets.changes_are_processed().await?;
    let before = scene.claims().await?;
    let refused = scene.drain(&["--in-tree=off"]).await?;
    assert_eq!(refused.code, Some(1), "{}", refused.stderr);
    assert_eq!(refused.stderr.lines().count(), 1, "{}", refused.stderr);
    let message = refused.stderr.strip_prefix("volume-warden: the Lease ");
    ensure!(
        message.is_some_and(|text| text.contains("is held by")),
        "{}",
        refused.stderr
    );
    assert_eq!(scene.claims().await?, before);
    warden.stop().await?;
    let drained = scene.drain(&["--in-tree=off"]).await?;
    assert_eq!((drained.code, &*drained.stderr), (Some(0), ""));
    Ok(())
}

/// If one change fails, the drain reports the error and makes the other changes. The next drain
/// makes the missing change.
#[tokio::test]
async fn failed_changes_are_reported() -> Result<()> {
    let scene = Scene::with_claims_in_all_states("forbidden").await?;
    let before = scene.claims().await?;
    let forbidden = claim_write("PATCH", "data-dr-1").respond(403, "Forbidden", "not to you");
    let forbidden = scene.drain_fixture.interposer.add(forbidden);
    let failed = scene.drain(&["--in-tree=off"]).await?;
    assert_eq!(failed.code, Some(1), "{}", failed.stdout);
    assert_eq!(failed.stderr.lines().count(), 1, "{}", failed.stderr);
    let reported = |error: &str| {
        failed
            .stdout
            .lines()
            .any(|line| line.contains("data-dr-1") && line.contains(error))
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
