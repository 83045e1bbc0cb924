//! The same webhook, implemented with Go's controller-runtime.

use crate::certificate::Certificate;
use anyhow::{Context, Result, ensure};
use std::{
    net::TcpListener,
    path::{Path, PathBuf},
    process::Command,
};
use volume_warden_controlplane::{Cluster, Process};

const MODULE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/peers/admission");

/// The compiled program.
pub struct Peer(PathBuf);

impl Peer {
    /// Builds the program with Go, from the module whose versions `go.mod` pins.
    pub async fn build() -> Result<Self> {
        let binary = Path::new(env!("CARGO_TARGET_TMPDIR")).join("admission-peer");
        let mut command = Command::new("go");
        command
            .args(["build", "-trimpath", "-ldflags", "-s -w", "-o"])
            .arg(&binary)
            .arg(".")
            .current_dir(MODULE)
            .env("CGO_ENABLED", "0");
        eprintln!("building the peer with Go; the first time takes minutes");
        let built = tokio::task::spawn_blocking(move || command.status()).await?;
        let built = built.context("cannot run `go`: Go 1.26 or newer is required")?;
        ensure!(built.success(), "go build failed; its output is above");
        Ok(Self(binary))
    }

    /// Starts the program on this core. It serves on the returned port shortly afterwards.
    pub fn start(
        &self,
        cluster: &Cluster,
        certificate: &Certificate,
        core: usize,
    ) -> Result<(Process, u16)> {
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let mut command = Command::new("taskset");
        command
            .args(["-c", &core.to_string()])
            .arg(&self.0)
            .arg(port.to_string())
            .arg(certificate.directory());
        Ok((cluster.spawn("controller-runtime", command)?, port))
    }
}
