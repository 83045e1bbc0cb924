//! `kubectl` and `helm` accept each of their commands in the documentation, including those in
//! sentences: without an API server, the only error is that the connection is refused.

use super::{
    overlay::{ManifestsCopy, OVERLAY},
    pages::{Shown, commands},
};
use crate::support::repository;
use anyhow::{Context, Result, ensure};
use std::{collections::BTreeSet, path::Path, process::Stdio};
use tokio::process::Command;
use volume_warden_controlplane::{Binaries, Helm};

/// Nothing listens on port 1.
const NO_SERVER: &str = r#"
apiVersion: v1
kind: Config
current-context: none
contexts: [{name: none, context: {cluster: none, user: none}}]
clusters: [{name: none, cluster: {server: "http://127.0.0.1:1"}}]
users: [{name: none, user: {}}]
"#;

#[tokio::test]
async fn kubectl_understands_each_command() -> Result<()> {
    let kubectl = Binaries::locate()?.path("kubectl");
    ensure!(all_are_understood("kubectl", &kubectl).await? > 30);
    for unknown in ["get pods --no-such-flag", "gett pods"] {
        let problem = problem(&kubectl, unknown, repository()).await?;
        ensure!(!problem.is_empty(), "{unknown}");
    }
    Ok(())
}

#[tokio::test]
async fn helm_understands_each_command() -> Result<()> {
    let helm = Helm::locate().await?;
    ensure!(all_are_understood("helm", helm.binary()).await? > 5);
    for unknown in ["uninstall a --no-such-flag", "get manifests a"] {
        let problem = problem(helm.binary(), unknown, repository()).await?;
        ensure!(!problem.is_empty(), "{unknown}");
    }
    Ok(())
}

/// Checks each command of the program in the documentation, and returns the number of commands.
async fn all_are_understood(name: &str, program: &Path) -> Result<usize> {
    let (mut count, copy) = (0, ManifestsCopy::with_image()?);
    let mut understood = BTreeSet::new();
    for Shown {
        page,
        command,
        in_block,
    } in commands(&format!("{name} "))
    {
        let arguments = command.split([';', '|', '>']).next().unwrap_or_default();
        let arguments = arguments.split_once(' ').context("arguments")?.1.trim();
        // A sentence may name a command without its object.
        let names_no_object = arguments.split(' ').count() < 2 || arguments == "-n volume-warden";
        if !in_block && (names_no_object || arguments.ends_with("-k")) {
            continue;
        }
        // The commands in the README of the chart run in the directory of the chart.
        let is_chart_readme = page.ends_with("helm/volume-warden/README.md");
        let directory = if is_chart_readme {
            page.parent()
        } else {
            command.contains(OVERLAY).then(|| copy.root())
        };
        let directory = directory.unwrap_or(repository());
        count += 1;
        // Pages repeat commands.
        if understood.contains(&(arguments.to_owned(), directory.to_owned())) {
            continue;
        }
        let problem = problem(program, arguments, directory).await?;
        let incomplete = !in_block && problem.contains("You must provide one or more resources");
        ensure!(
            problem.is_empty() || incomplete,
            "{}: {command}: {problem}",
            page.display()
        );
        if problem.is_empty() {
            understood.insert((arguments.to_owned(), directory.to_owned()));
        }
    }
    Ok(count)
}

/// Returns the output of the program if the program does not accept the command, and an empty
/// string otherwise. The program accepts the command if it succeeds without printing its usage, or
/// fails because the connection to the API server is refused.
async fn problem(program: &Path, arguments: &str, directory: &Path) -> Result<String> {
    let home = tempfile::tempdir()?;
    let kubeconfig = home.path().join("kubeconfig");
    std::fs::write(&kubeconfig, NO_SERVER)?;
    let output = Command::new("bash")
        .args(["-c", &format!("\"$0\" {arguments}")])
        .arg(program)
        .current_dir(directory)
        .env("KUBECONFIG", kubeconfig)
        .env("HOME", home.path())
        // The program exits too early for garbage collection to be useful.
        .env("GOGC", "off")
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output()
        .await?;
    let [stdout, stderr] = [output.stdout, output.stderr].map(String::from_utf8);
    let (stdout, stderr) = (stdout?, stderr?);
    let refused = ["connection refused", "was refused"].map(|error| stderr.contains(error));
    let done = output.status.success() && !stdout.contains("Usage:");
    let understood = done || refused.contains(&true);
    Ok(if understood {
        String::new()
    } else {
        stderr + &stdout
    })
}
