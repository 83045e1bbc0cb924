//! cert-manager, from its Go module: its CRDs, and its controllers.
//!
//! `cert-manager/main.go` runs the controllers, because no module proxy has the modules of
//! cert-manager's own commands.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::binaries::{locate_apart, pinned_version};
use crate::cluster::Cluster;
use crate::eventually::eventually;
use crate::go_build::{download, go_build};
use crate::process::Process;

const MODULE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/cert-manager");
const GO_MOD: &str = include_str!("../cert-manager/go.mod");
const PINS: [&str; 3] = [
    GO_MOD,
    include_str!("../cert-manager/go.sum"),
    include_str!("../cert-manager/main.go"),
];
const PINNED: &str = "github.com/cert-manager/cert-manager";
const KINDS: &str = "cert-manager-kinds.yaml";
const CONTROLLERS: &str = "cert-manager";

impl Cluster {
    /// Installs cert-manager's CRDs. On this user's first use they are downloaded, with Go.
    pub async fn install_cert_manager_kinds(&self) -> Result<()> {
        let kinds = tokio::task::spawn_blocking(|| located(KINDS, fetch)).await??;
        let file = kinds.to_str().context("a path in UTF-8")?;
        // The CRDs are too large for the annotation of a client-side apply.
        let apply = ["apply", "--server-side", "-f", file];
        self.kubectl(&apply).await?;
        // A CRD is established a moment before the API server serves it.
        let of_each = "certificaterequests,certificates,clusterissuers,issuers";
        eventually("cert-manager's kinds are served", async || {
            self.kubectl(&["get", of_each, "--all-namespaces"])
                .await
                .map(drop)
        })
        .await
    }

    /// Runs cert-manager's controllers and its cainjector as an admin until the returned value is
    /// dropped. On this user's first use they are built, which takes minutes.
    pub async fn run_cert_manager(&self) -> Result<Process> {
        let build = |output: &Path| go_build("cert-manager", MODULE, "-s -w", &["."], output);
        let controllers = tokio::task::spawn_blocking(move || located(CONTROLLERS, build));
        let mut command = Command::new(controllers.await??);
        command.env("KUBECONFIG", self.kubeconfig());
        self.spawn("cert-manager", command)
    }
}

fn located(file: &'static str, make: impl FnOnce(&Path) -> Result<()>) -> Result<PathBuf> {
    let version = pinned_version(GO_MOD, PINNED)?;
    Ok(locate_apart(&[file], version, &PINS, make)?.join(file))
}

/// The CRDs in one file, from the module's source.
fn fetch(output: &Path) -> Result<()> {
    let module = download(PINNED, Path::new(MODULE))?;
    let directory = module.dir.join("deploy/crds");
    let mut kinds = Vec::new();
    for kind in [
        "certificaterequests",
        "certificates",
        "clusterissuers",
        "issuers",
    ] {
        let file = directory.join(format!("cert-manager.io_{kind}.yaml"));
        let kind = fs::read_to_string(&file);
        kinds.push(kind.with_context(|| format!("reading {}", file.display()))?);
    }
    fs::write(output.join(KINDS), kinds.join("\n---\n")).context("writing cert-manager's kinds")
}
