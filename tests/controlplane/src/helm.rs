//! Helm, for the tests of the chart.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context, Result, bail};
use tempfile::TempDir;
use tokio::process::Command;

use crate::binaries::{locate_apart, pinned_version};
use crate::go_build::go_build;

const MODULE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/helm");
const GO_MOD: &str = include_str!("../helm/go.mod");
const PINS: [&str; 2] = [GO_MOD, include_str!("../helm/go.sum")];
const HELM: &str = "helm";

/// The Helm binary, without a user's configuration.
#[derive(Debug)]
pub struct Helm {
    binary: PathBuf,
    home: TempDir,
}

impl Helm {
    /// Finds Helm with the control plane's binaries, or else in the cache beside them, and builds
    /// it with Go on this user's first use. Only tests that need Helm wait for the build.
    pub async fn locate() -> Result<Self> {
        Ok(Self {
            binary: tokio::task::spawn_blocking(binary).await??,
            home: tempfile::tempdir()?,
        })
    }

    /// The binary.
    pub fn binary(&self) -> &Path {
        &self.binary
    }

    /// Runs Helm and returns its stdout; the error contains its stderr.
    pub async fn run(&self, arguments: &[&str]) -> Result<String> {
        let home = |name| self.home.path().join(name);
        let output = Command::new(&self.binary)
            .args(arguments)
            // The process is too short to benefit from Go's garbage collector.
            .env("GOGC", "off")
            .env("HELM_CACHE_HOME", home("cache"))
            .env("HELM_CONFIG_HOME", home("config"))
            .env("HELM_DATA_HOME", home("data"))
            // Without this variable Helm would look for the user's cluster.
            .env("KUBECONFIG", home("none"))
            .stdin(Stdio::null())
            .kill_on_drop(true)
            .output()
            .await
            .context("starting helm")?;
        if !output.status.success() {
            let stderr = String::from_utf8_lossy(&output.stderr);
            let stdout = String::from_utf8_lossy(&output.stdout);
            bail!("helm {} failed: {stderr}{stdout}", arguments.join(" "));
        }
        Ok(String::from_utf8(output.stdout)?)
    }
}

fn binary() -> Result<PathBuf> {
    let version = pinned_version(GO_MOD, "helm.sh/helm/v4")?;
    let directory = locate_apart(&[HELM], version, &PINS, |output| {
        let package = ["helm.sh/helm/v4/cmd/helm"];
        go_build("Helm", MODULE, "-s -w", &package, output)
    })?;
    Ok(directory.join(HELM))
}
