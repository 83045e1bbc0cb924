//! The programs that the commands of the documentation use, and their environment.

use crate::support::{BINARY, repository};
use anyhow::Result;
use std::{
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::Stdio,
};
use tempfile::TempDir;
use tokio::process::Command;
use volume_warden_controlplane::{Cluster, Helm};

/// A directory with the programs, for one cluster.
pub struct Programs {
    directory: TempDir,
    kubeconfig: PathBuf,
    group: i32,
}

impl Programs {
    pub async fn new(cluster: &Cluster) -> Result<Self> {
        let (directory, helm) = (tempfile::tempdir()?, Helm::locate().await?);
        let kubectl = cluster.kubectl_binary();
        let programs = [
            ("helm", helm.binary()),
            ("kubectl", &kubectl),
            ("volume-warden", Path::new(BINARY)),
        ];
        for (name, binary) in programs {
            symlink(binary, directory.path().join(name))?;
        }
        let kubeconfig = cluster.kubeconfig().to_owned();
        Ok(Self {
            directory,
            kubeconfig,
            group: cluster.group(),
        })
    }

    /// The home directory of the commands.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// A command that runs the script in the root of the repository, as an administrator of the
    /// cluster.
    pub fn shell(&self, script: &str) -> Command {
        let path = std::env::var("PATH").unwrap_or_default();
        let mut command = Command::new("bash");
        command
            .args(["-euo", "pipefail", "-c", script])
            .current_dir(repository())
            .env("PATH", format!("{}:{path}", self.directory().display()))
            .env("KUBECONFIG", &self.kubeconfig)
            .env("HOME", self.directory())
            // kubectl and helm exit too early for garbage collection to be useful.
            .env("GOGC", "off")
            .stdin(Stdio::null())
            // Processes that the shell starts may outlive it.
            .process_group(self.group)
            .kill_on_drop(true);
        command
    }
}
