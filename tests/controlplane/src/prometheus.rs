//! Prometheus, for the tests of the alerts and the dashboard.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context, Result, bail};
use tokio::process::Command;

use crate::binaries::{locate_apart, pinned_version};
use crate::go_build::go_build;

const MODULE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/prometheus");
const GO_MOD: &str = include_str!("../prometheus/go.mod");
const PINS: [&str; 2] = [GO_MOD, include_str!("../prometheus/go.sum")];
const PINNED: &str = "github.com/prometheus/prometheus";
const SERVER: &str = "prometheus";
const TOOL: &str = "promtool";

/// The binaries of Prometheus.
#[derive(Debug)]
pub struct Prometheus {
    directory: PathBuf,
}

impl Prometheus {
    /// Finds Prometheus with the control plane's binaries, or else in the cache beside them, and
    /// builds it with Go on this user's first use, which takes minutes. Only tests that need
    /// Prometheus wait for the build.
    pub async fn locate() -> Result<Self> {
        let directory = tokio::task::spawn_blocking(directory).await??;
        Ok(Self { directory })
    }

    /// The path of the server.
    pub fn server(&self) -> PathBuf {
        self.directory.join(SERVER)
    }

    /// Runs `promtool` and returns its stdout; the error contains all of its output.
    pub async fn tool(&self, arguments: &[&str]) -> Result<String> {
        let output = Command::new(self.directory.join(TOOL))
            .args(arguments)
            .stdin(Stdio::null())
            .kill_on_drop(true)
            .output()
            .await
            .context("starting promtool")?;
        let stdout = String::from_utf8(output.stdout)?;
        if !output.status.success() {
            let stderr = String::from_utf8_lossy(&output.stderr);
            bail!("promtool {} failed: {stderr}{stdout}", arguments.join(" "));
        }
        Ok(stdout)
    }
}

fn directory() -> Result<PathBuf> {
    let version = pinned_version(GO_MOD, PINNED)?;
    locate_apart(&[SERVER, TOOL], version, &PINS, build)
}

fn build(output: &Path) -> Result<()> {
    let packages = [SERVER, TOOL].map(|name| format!("{PINNED}/cmd/{name}"));
    let packages = packages.each_ref().map(String::as_str);
    go_build("Prometheus", MODULE, "-s -w", &packages, output)
}
