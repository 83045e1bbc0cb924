//! `volume-warden gc`

use super::{
    asking::live_list,
    support::{SYSTEM, Scene},
};
use crate::support::BINARY;
use anyhow::{Result, ensure};
use serde_json::Value;
use std::path::Path;
use tokio::process::Command;
use volume_warden_storageos::{Endpoint, FOR_EVER, Fault};

/// What it said, and its exit code.
struct Ended {
    code: Option<i32>,
    said: String,
    complained: String,
}

impl Scene {
    async fn gc(&self, kubeconfig: &Path, arguments: &[&str]) -> Result<Ended> {
        let output = Command::new(BINARY)
            .arg("gc")
            .args(arguments)
            .arg("--kubeconfig")
            .arg(kubeconfig)
            .arg(format!("--system-namespace={SYSTEM}"))
            .args(self.gc_arguments())
            .output()
            .await?;
        Ok(Ended {
            code: output.status.code(),
            said: String::from_utf8(output.stdout)?,
            complained: String::from_utf8(output.stderr)?,
        })
    }
}

/// With the rights of the service account, which are enough.
#[tokio::test]
async fn it_reports_and_deletes_when_reported_to() -> Result<()> {
    let scene = Scene::new("command").await?;
    scene.create_in_both("alive").await?;
    for name in ["a", "full"] {
        scene.store(name);
    }
    scene.storage.create("kube-anything");
    scene.storage.fill(&scene.of("full"));
    let account = &scene.cluster;
    let account = account
        .service_account_kubeconfig(SYSTEM, SYSTEM, None)
        .await?;

    for wrong in [&[][..], &["--dry-run", "--once"]] {
        let ended = scene.gc(&account, wrong).await?;
        ensure!(ended.code == Some(2), "{}", ended.complained);
        ensure!(ended.complained.contains("--once"), "{}", ended.complained);
    }
    let ended = scene.gc(&account, &["--dry-run"]).await?;
    ensure!(ended.code == Some(0), "{}", ended.complained);
    let lines: Vec<_> = ended.said.lines().collect();
    let words = |line: &&str| line.split_whitespace().take(3).map(str::to_owned).collect();
    let rows: Vec<Vec<_>> = lines.iter().map(words).take(4).collect();
    let (a, full) = (scene.of("a"), scene.of("full"));
    let header = ["NAMESPACE", "VERDICT", "OUTCOME"];
    ensure!(rows[0] == header, "{}", ended.said);
    for expected in [
        [&a, "Orphan", "Withheld"],
        [&full, "Orphan", "Withheld"],
        ["kube-anything", "Protected", "Kept"],
    ] {
        ensure!(
            rows.contains(&expected.map(str::to_owned).to_vec()),
            "{}",
            ended.said
        );
    }
    ensure!(!ended.said.contains("alive"), "{}", ended.said);
    ensure!(scene.deletions() == 0 && scene.storage.names().len() == 4);

    let ended = scene.gc(&account, &["--once", "-o", "json"]).await?;
    ensure!(ended.code == Some(0), "{}", ended.complained);
    let report: Value = serde_json::from_str(&ended.said)?;
    let counts = ["deleted", "notEmpty", "failed"].map(|key| report[key].as_u64());
    ensure!(counts == [Some(1), Some(1), Some(0)], "{report}");
    ensure!(!scene.is_stored("a") && scene.is_stored("full") && scene.is_stored("alive"));
    ensure!(scene.storage.names().len() == 3 && scene.deletions() == 2);
    Ok(())
}

/// One that could not be deleted, storage that cannot be listed, and a Kubernetes that cannot.
#[tokio::test]
async fn it_fails_when_something_could_not_be_done() -> Result<()> {
    let scene = Scene::new("command-fails").await?;
    scene.create_in_both("alive").await?;
    scene.store("orphan");
    let interposer = scene.interposer().await?;
    let fault = || Fault::error(500, "not now");
    scene.storage.fault(Endpoint::Delete, fault(), FOR_EVER);
    let through = interposer.kubeconfig();
    let ended = scene.gc(through, &["--once"]).await?;
    ensure!(ended.code == Some(1), "{}", ended.said);
    ensure!(ended.said.contains("1 failed"), "{}", ended.said);
    ensure!(scene.deletions() == 1);

    scene.storage.heal();
    scene.storage.fault(Endpoint::List, fault(), FOR_EVER);
    let ended = scene.gc(through, &["--once"]).await?;
    ensure!(
        ended.code == Some(1) && ended.said.is_empty(),
        "{}",
        ended.said
    );

    scene.storage.heal();
    let refused = interposer.add(live_list().respond(500, "InternalError", "not now"));
    let ended = scene.gc(through, &["--once"]).await?;
    ensure!(
        ended.code == Some(1) && ended.said.is_empty(),
        "{}",
        ended.said
    );
    ensure!(scene.deletions() == 1 && scene.is_stored("orphan"));
    drop(refused);
    let ended = scene.gc(through, &["--once"]).await?;
    ensure!(
        ended.code == Some(0) && !scene.is_stored("orphan"),
        "{}",
        ended.said
    );
    Ok(())
}

/// The kubeconfig of another cluster is a common mistake, and a deletion cannot be undone.
#[tokio::test]
async fn another_clusters_storage_is_refused() -> Result<()> {
    let scene = Scene::new("command-other").await?;
    scene.store("other");
    scene.storage.create("default");
    let account = &scene.cluster;
    let account = account.service_account_kubeconfig(SYSTEM, SYSTEM, None);
    let account = account.await?;
    let refused = scene.gc(&account, &["--once"]).await?;
    ensure!(
        refused.code == Some(1)
            && refused
                .complained
                .contains("none of the 2 namespaces in the storage backend exists in Kubernetes")
            && refused.complained.contains(scene.cluster.url()),
        "{}",
        refused.complained
    );
    ensure!(scene.deletions() == 0 && scene.is_stored("other"));
    let reported = scene.gc(&account, &["--dry-run"]).await?;
    ensure!(reported.code == Some(0), "{}", reported.complained);
    let forced = scene.gc(&account, &["--once", "--force"]).await?;
    ensure!(forced.code == Some(0), "{}", forced.complained);
    ensure!(scene.deletions() == 1 && !scene.is_stored("other"));
    Ok(())
}
