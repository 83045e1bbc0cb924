//! The release binary.

use crate::{api::Api, reviews::Reviews};
use anyhow::{Context, Result, ensure};
use serde_json::json;
use std::{
    fs,
    net::TcpListener,
    process::{Command, Stdio},
    time::Duration,
};
use tempfile::TempDir;
use volume_warden_controlplane::{Guardian, Process, eventually_within};

/// The time limit until the program has listed all objects.
const LIMIT: Duration = Duration::from_secs(600);
/// The number of resources that the program watches.
const WATCHED: usize = 2;

/// A running program, and its files.
pub struct Program {
    pub process: Process,
    webhook_port: u16,
    metrics_port: u16,
    probe_port: u16,
    _guardian: Guardian,
    _directory: TempDir,
}

impl Program {
    pub async fn start(api: &Api) -> Result<Self> {
        let directory = tempfile::tempdir()?;
        let kubeconfig = directory.path().join("kubeconfig");
        let text = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "model",
            "clusters": [{"name": "model", "cluster": {"server": format!("http://{}", api.address)}}],
            "users": [{"name": "model", "user": {}}],
            "contexts": [{"name": "model", "context": {"cluster": "model", "user": "model"}}],
        });
        fs::write(&kubeconfig, text.to_string())?;
        let free = || anyhow::Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port());
        let [webhook, metrics, probe] = [free()?, free()?, free()?];
        let mut command = Command::new(env!("CARGO_BIN_EXE_volume-warden"));
        command.arg("run").arg("--kubeconfig").arg(&kubeconfig);
        for (flag, port) in [("webhook", webhook), ("metrics", metrics), ("probe", probe)] {
            command.arg(format!("--{flag}-bind-address=127.0.0.1:{port}"));
        }
        command.env("RUST_LOG", "warn").stdin(Stdio::null());
        let guardian = Guardian::start(directory.path())?;
        let log = directory.path().join("log");
        let process = guardian.spawn("volume-warden", command, &log)?;
        Ok(Self {
            process,
            webhook_port: webhook,
            metrics_port: metrics,
            probe_port: probe,
            _guardian: guardian,
            _directory: directory,
        })
    }

    /// A client that sends reviews to the program.
    pub fn reviews(&self, api: &Api) -> Result<Reviews> {
        let secret = api
            .server
            .get("secrets", "volume-warden", "volume-warden-serving")
            .context("the Secret does not exist")?;
        Reviews::new(self.webhook_port, &secret)
    }

    /// Waits until the program has listed all objects, is the leader, and has reconciled all
    /// objects.
    pub async fn reconciled(&self) -> Result<()> {
        let empty = "volume_warden_queue_depth{component=\"pvc-protection\"} 0";
        let leads = "volume_warden_leader 1";
        eventually_within(LIMIT, "the leader's queue is empty", async || {
            let running = self.process.is_running();
            ensure!(running, "the program ended: {}", self.process.log());
            ensure!(self.is_ready().await?, "not all objects are listed");
            let metrics = self.metrics().await?;
            let has = |line: &str| metrics.lines().any(|each| each == line);
            ensure!(has(empty) && has(leads), "not leader or not empty");
            Ok(())
        })
        .await
    }

    /// Waits until the program has restarted its watches.
    pub async fn follows(&self, api: &Api) -> Result<()> {
        let before = api.watches();
        eventually_within(LIMIT, "the watches are restarted", async || {
            api.watches() >= before + WATCHED
        })
        .await
    }

    async fn is_ready(&self) -> Result<bool> {
        let url = format!("http://127.0.0.1:{}/readyz", self.probe_port);
        Ok(reqwest::get(url).await?.status().is_success())
    }

    async fn metrics(&self) -> Result<String> {
        let url = format!("http://127.0.0.1:{}/metrics", self.metrics_port);
        Ok(reqwest::get(url).await?.text().await?)
    }
}
