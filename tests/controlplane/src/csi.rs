//! A CSI driver on a cluster, with the sidecars of Kubernetes that call it.

use std::collections::BTreeSet;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use k8s_openapi::api::storage::v1::CSIDriver;
use k8s_openapi::jiff::Timestamp;
use kube::api::{Api, PostParams};
use serde::Deserialize;
use serde_json::json;

use crate::cluster::Cluster;
use crate::csi_binaries::{ATTACHER, PROVISIONER, Released, driver};
use crate::eventually::eventually;
use crate::process::Process;

/// A call of the driver that concerns a volume.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct CsiCall {
    /// `DeleteVolume` for example.
    pub method: String,
    /// The handle of the volume.
    pub volume: String,
    /// When it was answered.
    pub time: Timestamp,
    /// Whether the driver answered with an error.
    pub failed: bool,
}

/// A running CSI driver whose volumes are directories, and its sidecars. Dropping it kills them.
#[derive(Debug)]
pub struct Csi {
    name: String,
    directory: PathBuf,
    provisioner: Option<Process>,
    _attacher: Process,
    _driver: Process,
}

impl Csi {
    /// Starts a driver of this name, with external-provisioner and external-attacher as an admin.
    /// Builds them on this user's first use, which takes minutes.
    pub async fn start(cluster: &Cluster, name: &str) -> Result<Self> {
        let located = || anyhow::Ok((driver()?, PROVISIONER.locate()?, ATTACHER.locate()?));
        let (program, ..) = tokio::task::spawn_blocking(located).await??;
        let directory = cluster.dir().join(name);
        fs::create_dir_all(directory.join("volumes"))?;
        let driver = run_driver(cluster, &program, name, &directory)?;
        let socket = directory.join("socket");
        eventually("the CSI driver listens", async || {
            driver.ensure_running()?;
            anyhow::Ok(socket.exists())
        })
        .await?;
        let attacher = run(cluster, &ATTACHER, name, &socket)?;
        let provisioner = run(cluster, &PROVISIONER, name, &socket)?;
        let drivers: Api<CSIDriver> = Api::all(cluster.client());
        let object = json!({"metadata": {"name": name}, "spec": {"attachRequired": true}});
        let object = serde_json::from_value(object)?;
        drivers.create(&PostParams::default(), &object).await?;
        Ok(Self {
            name: name.to_owned(),
            directory,
            provisioner: Some(provisioner),
            _attacher: attacher,
            _driver: driver,
        })
    }

    /// The name of the driver, which is that of its provisioner and of its attacher.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Kills external-provisioner.
    pub fn stop_provisioner(&mut self) {
        self.provisioner = None;
    }

    /// Starts external-provisioner again.
    pub fn start_provisioner(&mut self, cluster: &Cluster) -> Result<()> {
        let socket = self.directory.join("socket");
        self.provisioner = Some(run(cluster, &PROVISIONER, &self.name, &socket)?);
        Ok(())
    }

    /// Makes all calls of this method fail, and no others; with `None`, no calls fail.
    pub fn fail(&self, method: Option<&str>) -> Result<()> {
        fs::write(self.directory.join("failing"), method.unwrap_or_default())?;
        Ok(())
    }

    /// The directory with the files of a volume.
    pub fn directory_of(&self, handle: &str) -> PathBuf {
        self.directory.join("volumes").join(handle)
    }

    /// The handles of the volumes that the driver has.
    pub fn volumes(&self) -> Result<BTreeSet<String>> {
        let volumes = fs::read_dir(self.directory.join("volumes"))?;
        let names = volumes.map(|volume| Ok(volume?.file_name().to_string_lossy().into_owned()));
        names.collect()
    }

    /// All calls so far that concern a volume, in order.
    pub fn calls(&self) -> Result<Vec<CsiCall>> {
        let text = match fs::read_to_string(self.directory.join("calls")) {
            Err(error) if error.kind() == ErrorKind::NotFound => String::new(),
            text => text.context("reading the calls of the CSI driver")?,
        };
        // The last line may still be incomplete.
        let lines = text
            .split_inclusive('\n')
            .filter(|line| line.ends_with('\n'));
        lines.map(|line| Ok(serde_json::from_str(line)?)).collect()
    }
}

fn run_driver(cluster: &Cluster, program: &Path, name: &str, directory: &Path) -> Result<Process> {
    let mut command = Command::new(program);
    command.arg("-name").arg(name);
    for (flag, file) in [
        ("-socket", "socket"),
        ("-root", "volumes"),
        ("-calls", "calls"),
        ("-failing", "failing"),
    ] {
        command.arg(flag).arg(directory.join(file));
    }
    cluster.spawn(&format!("{name}-driver"), command)
}

fn run(cluster: &Cluster, sidecar: &Released, driver: &str, socket: &Path) -> Result<Process> {
    let mut command = Command::new(sidecar.locate()?);
    command
        .arg("--csi-address")
        .arg(socket)
        .arg("--kubeconfig")
        .arg(cluster.kubeconfig())
        // High limits, so that tests do not wait for the rate limit of the sidecar.
        .args(["--kube-api-qps=200", "--kube-api-burst=400"]);
    cluster.spawn(&format!("{driver}-{}", sidecar.name), command)
}
