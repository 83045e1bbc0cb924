//! `volume-warden drain`: what was written is taken back, as if every policy were Retain.

mod scene;

use super::faults::claim_write;
use crate::support::claim;
use anyhow::{Result, ensure};
use kube::api::PostParams;
use scene::Scene;
use serde_json::json;

/// The claims that were changed, by their lines.
const CHANGED: [&str; 6] = [
    "data-dd-0",
    "data-dd-1",
    "data-dr-0",
    "data-dr-1",
    "data-rd-0",
    "data-rd-1",
];

/// Each claim of `names` has a line, and there is one line more, besides those about webhooks and progress.
fn tells_of(stdout: &str, names: &[&str]) -> Result<()> {
    let others = |line: &&str| !line.ends_with(" done") && !line.starts_with("webhook ");
    let lines: Vec<_> = stdout.lines().filter(others).collect();
    for name in names {
        let told = lines.iter().filter(|line| line.contains(name)).count();
        ensure!(told == 1, "{name}: {stdout}");
    }
    ensure!(lines.len() == names.len() + 1, "{stdout}");
    Ok(())
}

/// Of all policies, the refs of others kept; a second time there is nothing to do; and a set deleted then leaves its claims.
#[tokio::test]
async fn refs_and_marks_are_taken_back() -> Result<()> {
    let scene = Scene::in_the_middle_of_everything("drained").await?;
    let before = scene.claims().await?;
    let drained = scene.drain(&["--in-tree=off"]).await?;
    assert_eq!((drained.code, &*drained.stderr), (Some(0), ""));
    tells_of(&drained.stdout, &CHANGED)?;
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
    // What had nothing to take back was not written.
    for name in ["data-rr-0", "data-rr-1"] {
        assert_eq!(after.get(name), before.get(name));
    }
    let again = scene.drain(&["--in-tree=off"]).await?;
    assert_eq!((again.code, &*again.stderr), (Some(0), ""));
    tells_of(&again.stdout, &[])?;
    assert_eq!(scene.claims().await?, after);
    scene.delete_all_sets().await?;
    assert_eq!(scene.claims().await?, after);
    Ok(())
}

/// A dry run says what it would do, and does nothing.
#[tokio::test]
async fn a_dry_drain_changes_nothing() -> Result<()> {
    let scene = Scene::in_the_middle_of_everything("dry-drain").await?;
    let (before, writes) = (scene.claims().await?, scene.stage.claim_writes());
    let drained = scene.drain(&["--in-tree=off", "--dry-run"]).await?;
    assert_eq!((drained.code, &*drained.stderr), (Some(0), ""));
    tells_of(&drained.stdout, &CHANGED)?;
    assert_eq!(scene.claims().await?, before);
    assert_eq!(scene.stage.claim_writes(), writes);
    Ok(())
}

/// Where Kubernetes looks after the refs itself they are its own by now.
#[tokio::test]
async fn beside_in_tree_only_marks_are_taken_back() -> Result<()> {
    let scene = Scene::in_the_middle_of_everything("marks").await?;
    let before = scene.claims().await?;
    let drained = scene.drain(&["--in-tree=on"]).await?;
    assert_eq!((drained.code, &*drained.stderr), (Some(0), ""));
    tells_of(
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

/// Kubernetes itself never looks at the claim of an ordinal without a pod, so its ref would act for ever.
#[tokio::test]
async fn beside_in_tree_claims_without_pods_are_let_go() -> Result<()> {
    let scene = Scene::in_the_middle_of_everything("podless").await?;
    let uid = scene.patient.sets.sets.get("dr").await?.metadata.uid;
    let owner = json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "dr", "uid": uid, "controller": true});
    let podless = claim(
        "data-dr-7",
        json!({"metadata": {"ownerReferences": [owner]}}),
    )?;
    let claims = &scene.patient.sets.space.claims;
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

/// Whoever holds the Lease would write it all anew.
#[tokio::test]
async fn it_refuses_while_a_volume_warden_is_at_work() -> Result<()> {
    let scene = Scene::in_the_middle_of_everything("at-work").await?;
    let warden = scene.patient.start().await?;
    scene.patient.sets.settled().await?;
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

/// What could not be taken back is told, the rest is, and the next drain completes it.
#[tokio::test]
async fn what_it_cannot_take_back_is_told() -> Result<()> {
    let scene = Scene::in_the_middle_of_everything("forbidden").await?;
    let before = scene.claims().await?;
    let forbidden = claim_write("PATCH", "data-dr-1").respond(403, "Forbidden", "not to you");
    let forbidden = scene.stage.between.add(forbidden);
    let failed = scene.drain(&["--in-tree=off"]).await?;
    assert_eq!(failed.code, Some(1), "{}", failed.stdout);
    assert_eq!(failed.stderr.lines().count(), 1, "{}", failed.stderr);
    let told = |words: &str| {
        failed
            .stdout
            .lines()
            .any(|line| line.contains("data-dr-1") && line.contains(words))
    };
    ensure!(told("not to you"), "{}", failed.stdout);
    let after = scene.claims().await?;
    assert_eq!(after.get("data-dr-1"), before.get("data-dr-1"));
    ensure!(!after["data-rd-0"].marked, "{:?}", after["data-rd-0"]);
    drop(forbidden);
    let drained = scene.drain(&["--in-tree=off"]).await?;
    assert_eq!(drained.code, Some(0), "{}", drained.stderr);
    tells_of(&drained.stdout, &["data-dr-1"])?;
    ensure!(scene.claims().await?["data-dr-1"].owners.is_empty());
    Ok(())
}
