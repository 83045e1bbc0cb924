//! Runs the commands of the documentation, including those in sentences, as they are written on a
//! real control plane. A command that would change the cluster for later commands is a dry run.

mod documented_command;
mod fixture;
mod not_executed;

use super::{
    commands::runs_in_page_order,
    pages::{Shown, commands},
    programs::Programs,
};
use crate::support::repository;
use anyhow::{Context, Result, ensure};
use documented_command::DocumentedCommand;
use fixture::Fixture;
pub use not_executed::NOT_EXECUTED;
use std::{collections::BTreeSet, process::Stdio};
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::Command,
};
use volume_warden_controlplane::{Cluster, Warden};

/// Runs the commands of `kubectl` and `volume-warden`.
pub async fn run_kubectl_and_volume_warden(cluster: &Cluster, warden: &Warden) -> Result<()> {
    let fixture = Fixture::new(cluster, warden).await?;
    let commands = commands_to_run(&["kubectl ", "volume-warden "]);
    ensure!(commands.len() > 70, "{commands:#?}");
    for command in commands {
        let script = command.script();
        fixture
            .prepare(&command)
            .await
            .with_context(|| script.to_owned())?;
        run(fixture.shell(script), &command).await?;
    }
    for wrong in [
        "kubectl delete pvc never-created",
        "volume-warden why pvc never-created",
    ] {
        let command = DocumentedCommand::new("a page".as_ref(), wrong);
        let result = run(fixture.shell(command.script()), &command).await;
        ensure!(result.is_err(), "{wrong}");
    }
    Ok(())
}

/// Runs the commands of `helm` in sentences, on a cluster with a second revision of the chart.
pub async fn run_helm(cluster: &Cluster) -> Result<()> {
    let programs = Programs::new(cluster).await?;
    let commands = commands_to_run(&["helm "]);
    ensure!(commands.len() > 2, "{commands:#?}");
    for command in commands {
        run(programs.shell(command.script()), &command).await?;
    }
    Ok(())
}

/// The commands of these programs in the order of the pages, each once, without those of
/// [`NOT_EXECUTED`] and those that the module `commands` runs.
fn commands_to_run(programs: &[&str]) -> Vec<DocumentedCommand> {
    let mut shown: Vec<Shown> = programs.iter().flat_map(|each| commands(each)).collect();
    shown.sort_by(|one, other| one.page.cmp(&other.page));
    let run_in_page_order: BTreeSet<String> = shown
        .iter()
        .filter(|each| runs_in_page_order(each))
        .map(|each| each.command.clone())
        .collect();
    let mut seen = BTreeSet::new();
    let mut commands = Vec::new();
    for Shown {
        page,
        command,
        in_block,
    } in shown
    {
        let names_no_object = !in_block && command.split(' ').count() < 3;
        let is_excluded = NOT_EXECUTED.iter().any(|(each, _)| *each == command);
        if names_no_object || is_excluded || run_in_page_order.contains(&command) {
            continue;
        }
        let page = page.strip_prefix(repository()).unwrap_or(&page);
        let command = DocumentedCommand::new(page, &command);
        if seen.insert(command.script().to_owned()) {
            commands.push(command);
        }
    }
    commands
}

/// Runs the command until it ends. A watch, which ends only when it is stopped, runs until it
/// prints its first line.
async fn run(mut shell: Command, command: &DocumentedCommand) -> Result<()> {
    let script = command.script();
    if command.is_watch() {
        let mut child = shell.stdout(Stdio::piped()).spawn()?;
        let output = child.stdout.take().context("no output")?;
        let line = BufReader::new(output).lines().next_line().await?;
        ensure!(line.is_some(), "{script} prints nothing");
        return Ok(());
    }
    let output = shell.output().await?;
    let [stdout, stderr] = [output.stdout, output.stderr].map(String::from_utf8);
    ensure!(output.status.success(), "{script}: {}{}", stdout?, stderr?);
    Ok(())
}
