//! The commands of the documentation run as they are written on a real control plane, those in
//! sentences included. What would change the cluster for the following commands is a dry run.

mod fixture;
mod rows;
mod written;

use super::{
    commands::is_run_whole,
    pages::{Shown, commands},
    programs::Programs,
};
use crate::support::repository;
use anyhow::{Context, Result, ensure};
use fixture::Fixture;
pub use rows::NOT_EXECUTED;
use std::{collections::BTreeSet, process::Stdio};
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::Command,
};
use volume_warden_controlplane::{Cluster, Warden};

/// Runs the commands of `kubectl` and `volume-warden`.
pub async fn all(cluster: &Cluster, warden: &Warden) -> Result<()> {
    let fixture = Fixture::new(cluster, warden).await?;
    let commands = to_run(&["kubectl ", "volume-warden "]);
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
        let command = written::Command::new("a page".as_ref(), wrong);
        let result = run(fixture.shell(command.script()), &command).await;
        ensure!(result.is_err(), "{wrong}");
    }
    Ok(())
}

/// Runs the commands of `helm` in sentences, on a cluster with a second revision of the chart.
pub async fn of_helm(cluster: &Cluster) -> Result<()> {
    let programs = Programs::new(cluster).await?;
    let commands = to_run(&["helm "]);
    ensure!(commands.len() > 2, "{commands:#?}");
    for command in commands {
        run(programs.shell(command.script()), &command).await?;
    }
    Ok(())
}

/// The commands of these programs in the order of the pages, each once, without those of
/// [`NOT_EXECUTED`] and those that `commands` runs.
fn to_run(programs: &[&str]) -> Vec<written::Command> {
    let mut shown: Vec<Shown> = programs.iter().flat_map(|each| commands(each)).collect();
    shown.sort_by(|one, other| one.page.cmp(&other.page));
    let whole: BTreeSet<String> = shown
        .iter()
        .filter(|each| is_run_whole(each))
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
        let left_out = NOT_EXECUTED.iter().any(|(each, _)| *each == command);
        if names_no_object || left_out || whole.contains(&command) {
            continue;
        }
        let page = page.strip_prefix(repository()).unwrap_or(&page);
        let command = written::Command::new(page, &command);
        if seen.insert(command.script().to_owned()) {
            commands.push(command);
        }
    }
    commands
}

/// Runs it until it ends, or until the first line of a command that ends only when it is stopped.
async fn run(mut started: Command, command: &written::Command) -> Result<()> {
    let script = command.script();
    if command.is_watch() {
        let mut child = started.stdout(Stdio::piped()).spawn()?;
        let output = child.stdout.take().context("no output")?;
        let line = BufReader::new(output).lines().next_line().await?;
        ensure!(line.is_some(), "{script} prints nothing");
        return Ok(());
    }
    let output = started.output().await?;
    let [stdout, stderr] = [output.stdout, output.stderr].map(String::from_utf8);
    ensure!(output.status.success(), "{script}: {}{}", stdout?, stderr?);
    Ok(())
}
