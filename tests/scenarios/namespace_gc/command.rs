//! The command `volume-warden gc`.

use super::{
    reads_and_metrics::live_list,
    support::{Fixture, SYSTEM},
};
use crate::support::BINARY;
use anyhow::{Result, ensure};
use serde_json::Value;
use std::path::Path;
use tokio::process::Command;
use volume_warden_storageos::{Endpoint, FOR_EVER, Fault};

/// The exit code and the output of the command.
struct GcOutput {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

impl Fixture {
    async fn gc(&self, kubeconfig: &Path, arguments: &[&str]) -> Result<GcOutput> {
        let output = Command::new(BINARY)
            .arg("gc")
            .args(arguments)
            .arg("--kubeconfig")
            .arg(kubeconfig)
            .arg(format!("--system-namespace={SYSTEM}"))
            .args(self.gc_arguments())
            .output()
            .await?;
        Ok(GcOutput {
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout)?,
            stderr: String::from_utf8(output.stderr)?,
        })
    }
}

/// The permissions of the service account suffice.
#[tokio::test]
async fn gc_reports_and_deletes_on_request() -> Result<()> {
    let fixture = Fixture::new("command").await?;
    fixture.create_in_both("alive").await?;
    for name in ["a", "full"] {
        fixture.create_in_storage(name);
    }
    fixture.storage.create("kube-anything");
    fixture.storage.fill(&fixture.full_name("full"));
    let kubeconfig = &fixture.cluster;
    let kubeconfig = kubeconfig
        .service_account_kubeconfig(SYSTEM, SYSTEM, None)
        .await?;

    for wrong in [&[][..], &["--dry-run", "--once"]] {
        let output = fixture.gc(&kubeconfig, wrong).await?;
        ensure!(output.code == Some(2), "{}", output.stderr);
        ensure!(output.stderr.contains("--once"), "{}", output.stderr);
    }
    let output = fixture.gc(&kubeconfig, &["--dry-run"]).await?;
    ensure!(output.code == Some(0), "{}", output.stderr);
    let lines: Vec<_> = output.stdout.lines().collect();
    let first_words = |line: &&str| line.split_whitespace().take(3).map(str::to_owned).collect();
    let rows: Vec<Vec<_>> = lines.iter().map(first_words).take(4).collect();
    let (a, full) = (fixture.full_name("a"), fixture.full_name("full"));
    let header = ["NAMESPACE", "VERDICT", "OUTCOME"];
    ensure!(rows[0] == header, "{}", output.stdout);
    for expected in [
        [&a, "Orphan", "Withheld"],
        [&full, "Orphan", "Withheld"],
        ["kube-anything", "Protected", "Kept"],
    ] {
        ensure!(
            rows.contains(&expected.map(str::to_owned).to_vec()),
            "{}",
            output.stdout
        );
    }
    ensure!(!output.stdout.contains("alive"), "{}", output.stdout);
    ensure!(fixture.deletions() == 0 && fixture.storage.names().len() == 4);

    let output = fixture.gc(&kubeconfig, &["--once", "-o", "json"]).await?;
    ensure!(output.code == Some(0), "{}", output.stderr);
    let report: Value = serde_json::from_str(&output.stdout)?;
    let counts = ["deleted", "notEmpty", "failed"].map(|key| report[key].as_u64());
    ensure!(counts == [Some(1), Some(1), Some(0)], "{report}");
    ensure!(
        !fixture.is_in_storage("a")
            && fixture.is_in_storage("full")
            && fixture.is_in_storage("alive")
    );
    ensure!(fixture.storage.names().len() == 3 && fixture.deletions() == 2);
    Ok(())
}

/// A script must not take a collection that left namespaces for a complete one.
#[tokio::test]
async fn gc_fails_if_it_leaves_namespaces_because_of_the_limit() -> Result<()> {
    let fixture = Fixture::new("command-limit").await?;
    fixture.create_in_both("alive").await?;
    for name in ["one", "two"] {
        fixture.create_in_storage(name);
    }
    let kubeconfig = fixture
        .cluster
        .service_account_kubeconfig(SYSTEM, SYSTEM, None)
        .await?;
    let limited = ["--once", "--gc-max-deletions=1"];
    let output = fixture.gc(&kubeconfig, &limited).await?;
    ensure!(output.code == Some(1), "{}", output.stdout);
    ensure!(
        output.stderr.contains("1 namespaces were left"),
        "{}",
        output.stderr
    );
    ensure!(!fixture.is_in_storage("one") && fixture.is_in_storage("two"));
    let output = fixture.gc(&kubeconfig, &limited).await?;
    ensure!(
        output.code == Some(0) && !fixture.is_in_storage("two"),
        "{}",
        output.stderr
    );
    Ok(())
}

/// A namespace cannot be deleted, then the storage cannot be listed, then Kubernetes cannot be
/// listed.
#[tokio::test]
async fn gc_fails_if_a_deletion_or_a_list_fails() -> Result<()> {
    let fixture = Fixture::new("command-fails").await?;
    fixture.create_in_both("alive").await?;
    fixture.create_in_storage("orphan");
    let interposer = fixture.interposer().await?;
    let fault = || Fault::error(500, "not now");
    fixture.storage.fault(Endpoint::Delete, fault(), FOR_EVER);
    let kubeconfig = interposer.kubeconfig();
    let output = fixture.gc(kubeconfig, &["--once"]).await?;
    ensure!(output.code == Some(1), "{}", output.stdout);
    ensure!(output.stdout.contains("1 failed"), "{}", output.stdout);
    ensure!(fixture.deletions() == 1);

    fixture.storage.clear_faults();
    fixture.storage.fault(Endpoint::List, fault(), FOR_EVER);
    let output = fixture.gc(kubeconfig, &["--once"]).await?;
    ensure!(
        output.code == Some(1) && output.stdout.is_empty(),
        "{}",
        output.stdout
    );

    fixture.storage.clear_faults();
    let refused = interposer.add(live_list().respond(500, "InternalError", "not now"));
    let output = fixture.gc(kubeconfig, &["--once"]).await?;
    ensure!(
        output.code == Some(1) && output.stdout.is_empty(),
        "{}",
        output.stdout
    );
    ensure!(fixture.deletions() == 1 && fixture.is_in_storage("orphan"));
    drop(refused);
    let output = fixture.gc(kubeconfig, &["--once"]).await?;
    ensure!(
        output.code == Some(0) && !fixture.is_in_storage("orphan"),
        "{}",
        output.stdout
    );
    Ok(())
}

/// The kubeconfig of another cluster is a common mistake, and a deletion cannot be undone.
#[tokio::test]
async fn another_clusters_storage_is_refused() -> Result<()> {
    let fixture = Fixture::new("command-other").await?;
    fixture.create_in_storage("other");
    fixture.storage.create("default");
    let kubeconfig = &fixture.cluster;
    let kubeconfig = kubeconfig.service_account_kubeconfig(SYSTEM, SYSTEM, None);
    let kubeconfig = kubeconfig.await?;
    let refused = fixture.gc(&kubeconfig, &["--once"]).await?;
    ensure!(
        refused.code == Some(1)
            && refused
                .stderr
                .contains("none of the 2 namespaces in the storage backend exists in Kubernetes")
            && refused.stderr.contains(fixture.cluster.url()),
        "{}",
        refused.stderr
    );
    ensure!(fixture.deletions() == 0 && fixture.is_in_storage("other"));
    let reported = fixture.gc(&kubeconfig, &["--dry-run"]).await?;
    ensure!(reported.code == Some(0), "{}", reported.stderr);
    let forced = fixture.gc(&kubeconfig, &["--once", "--force"]).await?;
    ensure!(forced.code == Some(0), "{}", forced.stderr);
    ensure!(fixture.deletions() == 1 && !fixture.is_in_storage("other"));
    Ok(())
}
