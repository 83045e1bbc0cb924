//! Prints the stories: sentences, and commands with their real output.

use anyhow::{Context, Result, ensure};
use std::{
    env,
    ffi::OsString,
    io::{self, IsTerminal, Write},
    path::{Path, PathBuf},
    process::{Output, Stdio},
};
use tokio::process::Command;
use volume_warden_controlplane::{Binaries, Cluster, eventually};

/// Prints sentences, and runs commands with `sh` exactly as they are shown.
pub struct Narrator {
    kubeconfig: PathBuf,
    /// The directories with the kubectl of the cluster's version and with `volume-warden`, and a
    /// `PATH` that begins with them.
    directories: [PathBuf; 2],
    path: OsString,
    /// kubectl's default cache is keyed by address, and another cluster may have used the same
    /// port.
    kubectl_cache: PathBuf,
}

impl Narrator {
    /// A narrator for `cluster`, whose commands find `binary`.
    pub fn new(cluster: &Cluster, binary: &Path) -> Result<Self> {
        let kubectl = Binaries::locate()?.path("kubectl");
        let directories = [
            directory_of(&kubectl)?.to_owned(),
            directory_of(binary)?.to_owned(),
        ];
        let usual = env::var_os("PATH").unwrap_or_default();
        let path = directories.iter().cloned().chain(env::split_paths(&usual));
        Ok(Self {
            kubeconfig: cluster.kubeconfig().to_owned(),
            path: env::join_paths(path)?,
            directories,
            kubectl_cache: cluster.dir().join("kubectl-cache"),
        })
    }

    /// Runs the command once and prints its output. The command must succeed and print `expected`.
    pub async fn run(&self, command: &str, expected: &str) -> Result<()> {
        let output = self.sh(command).await?;
        let printed = text(&output);
        ensure!(
            output.status.success(),
            "`{command}` failed ({}): {printed}",
            output.status
        );
        ensure!(
            printed.contains(expected),
            "`{command}` did not print {expected:?}: {printed}"
        );
        Ok(show(command, &printed)?)
    }

    /// Runs the command until its output contains all of `expected`, and prints that output.
    pub async fn see(&self, command: &str, expected: &[&str]) -> Result<()> {
        let printed = self.until(command, expected).await?;
        Ok(show(command, &printed)?)
    }

    /// Runs the command until its output contains all of `expected`, and prints nothing. The
    /// command may fail: some stories show a failure.
    pub async fn until(&self, command: &str, expected: &[&str]) -> Result<String> {
        eventually(&format!("`{command}` prints {expected:?}"), async || {
            let printed = text(&self.sh(command).await?);
            let complete = expected.iter().all(|&part| printed.contains(part));
            ensure!(complete, "{printed}");
            anyhow::Ok(Some(printed))
        })
        .await
    }

    /// Prints the commands that give another terminal access to this cluster.
    pub fn invite(&self) -> io::Result<()> {
        show(
            &format!("export KUBECONFIG={}", self.kubeconfig.display()),
            "",
        )?;
        let [kubectl, binary] = self.directories.each_ref().map(|path| path.display());
        show(&format!("export PATH={kubectl}:{binary}:$PATH"), "")?;
        show("kubectl get pvc,pv,pod -A", "")
    }

    async fn sh(&self, command: &str) -> Result<Output> {
        let mut shell = Command::new("/bin/sh");
        shell
            .args(["-c", command])
            .env("PATH", &self.path)
            .env("KUBECONFIG", &self.kubeconfig)
            .env("KUBECACHEDIR", &self.kubectl_cache)
            .stdin(Stdio::null())
            .kill_on_drop(true);
        Ok(shell.output().await?)
    }
}

/// Prints a line.
pub fn print(text: &str) -> io::Result<()> {
    writeln!(io::stdout(), "{text}")
}

/// Prints the title of a story.
pub fn title(text: &str) -> io::Result<()> {
    print(&format!("\n{}", bold(&format!("==== {text}"))))
}

/// Prints the next step of a story, before its commands.
pub fn step(text: &str) -> io::Result<()> {
    print(&format!("\n{text}"))
}

fn show(command: &str, printed: &str) -> io::Result<()> {
    print(&format!("\n  {}", bold(&format!("$ {command}"))))?;
    for line in printed.lines() {
        print(&format!("  {line}"))?;
    }
    Ok(())
}

/// Standard output, then standard error.
fn text(output: &Output) -> String {
    let [out, err] = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes));
    format!("{out}{err}").trim_end().to_owned()
}

fn directory_of(program: &Path) -> Result<&Path> {
    program.parent().context("a program without a directory")
}

fn bold(text: &str) -> String {
    let plain = env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    if plain || !io::stdout().is_terminal() {
        return text.to_owned();
    }
    format!("\u{1b}[1m{text}\u{1b}[0m")
}
