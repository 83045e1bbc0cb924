//! kubectl as an admin.

use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};

use anyhow::{Context, Result, bail};
use tokio::io::AsyncWriteExt;
use tokio::process::{Child, Command};

use crate::cluster::Cluster;

impl Cluster {
    /// The path of `kubectl`, for tests that run it as a user would.
    pub fn kubectl_path(&self) -> PathBuf {
        self.binaries.path("kubectl")
    }

    /// Runs kubectl as an admin and returns its stdout; the error contains its stderr.
    pub async fn kubectl(&self, arguments: &[&str]) -> Result<String> {
        self.run_kubectl(arguments, "").await
    }

    /// Runs [`Cluster::kubectl`] with this stdin, for `apply -f -`.
    pub async fn kubectl_with_stdin(&self, arguments: &[&str], stdin: &str) -> Result<String> {
        self.run_kubectl(arguments, stdin).await
    }

    /// Applies a directory with a `kustomization.yaml`, without waiting for its effect.
    pub async fn apply_kustomization(&self, directory: impl AsRef<Path>) -> Result<String> {
        let directory = directory.as_ref();
        let argument = directory
            .to_str()
            .with_context(|| format!("{} is not UTF-8", directory.display()))?;
        self.kubectl(&["apply", "-k", argument]).await
    }

    /// The API server's warnings that kubectl printed, each without the prefix.
    pub async fn kubectl_warnings(&self, arguments: &[&str]) -> Result<Vec<String>> {
        let output = self.finished_kubectl(arguments, "").await?;
        let printed = String::from_utf8(output.stderr)?;
        let warnings = printed
            .lines()
            .filter_map(|line| line.strip_prefix("Warning: "));
        Ok(warnings.map(str::to_owned).collect())
    }

    async fn run_kubectl(&self, arguments: &[&str], input: &str) -> Result<String> {
        let output = self.finished_kubectl(arguments, input).await?;
        Ok(String::from_utf8(output.stdout)?)
    }

    async fn finished_kubectl(&self, arguments: &[&str], input: &str) -> Result<Output> {
        let mut child = self.start_kubectl(arguments)?;
        if let Some(mut stdin) = child.stdin.take() {
            // If kubectl did not read all of its input, its own error is the useful one.
            let _ = stdin.write_all(input.as_bytes()).await;
        }
        let output = child.wait_with_output().await?;
        if !output.status.success() {
            let stderr = String::from_utf8_lossy(&output.stderr);
            bail!(
                "kubectl {} failed ({}): {}",
                arguments.join(" "),
                output.status,
                stderr.trim()
            );
        }
        Ok(output)
    }

    fn start_kubectl(&self, arguments: &[&str]) -> Result<Child> {
        Command::new(self.binaries.path("kubectl"))
            .arg("--kubeconfig")
            .arg(self.kubeconfig())
            // The default cache is keyed by address, and another cluster may have used the same
            // port.
            .arg("--cache-dir")
            .arg(self.dir().join("kubectl-cache"))
            .args(arguments)
            // The process is too short to benefit from Go's garbage collector.
            .env("GOGC", "off")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(self.guardian.group())
            .kill_on_drop(true)
            .spawn()
            .context("starting kubectl")
    }
}
