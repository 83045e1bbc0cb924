//! Writes the kustomizations that pages show as the overlay `own` into a copy of the manifests.

use crate::support::{manifests::rendered, repository};
use anyhow::{Context, Result, ensure};
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};
use tempfile::TempDir;

/// The pages that show complete kustomizations.
pub const KUSTOMIZE: &str = "docs/install/kustomize.md";
const NSDELETE: &str = "docs/migrating/nsdelete.md";
/// The path of the overlay in the commands of the pages.
pub const OVERLAY: &str = "manifests/overlays/own";

/// A temporary directory with a copy of the manifests that contains the overlay.
pub struct ManifestsCopy(TempDir);

impl ManifestsCopy {
    /// With the first kustomization of the page about kustomize, which names an image.
    pub fn with_image() -> Result<Self> {
        let (complete, _) = kustomizations(KUSTOMIZE)?;
        Self::with(complete.first().context("no kustomization")?)
    }

    pub fn with(kustomization: &str) -> Result<Self> {
        let copy = tempfile::tempdir()?;
        let status = Command::new("cp")
            .arg("-r")
            .arg(repository().join("manifests"))
            // The overlay cert-manager refers to this directory.
            .arg(repository().join("certs"))
            .arg(copy.path())
            .status()?;
        ensure!(status.success(), "cp: {status}");
        let directory = copy.path().join(OVERLAY);
        fs::create_dir_all(&directory)?;
        let file = directory.join("kustomization.yaml");
        fs::write(file, fill_placeholders(kustomization))?;
        Ok(Self(copy))
    }

    /// The directory that contains `manifests`.
    pub fn root(&self) -> &Path {
        self.0.path()
    }

    pub fn overlay(&self) -> PathBuf {
        self.root().join(OVERLAY)
    }
}

/// The complete kustomizations of the page, and the fragments that can be added to each.
pub fn kustomizations(page: &str) -> Result<(Vec<String>, String)> {
    let page = fs::read_to_string(repository().join(page))?;
    let blocks = page.split("```yaml\n").skip(1);
    // A block in a list is indented, which is still valid YAML.
    let blocks =
        blocks.filter_map(|block| Some(block.split("```").next()?.trim_end().to_owned() + "\n"));
    let (complete, fragments): (Vec<_>, Vec<_>) =
        blocks.partition(|block| block.contains("kind: Kustomization"));
    Ok((complete, fragments.concat()))
}

/// The text with values for its placeholders.
pub fn fill_placeholders(text: &str) -> String {
    let text = text.replace("REGISTRY", "registry.example.com");
    text.replace("TAG", "1.2.3")
}

/// The patches of the overlay take effect together with its namespace: the dry run, the ports and
/// the address of the storage API, and the scope.
#[tokio::test]
async fn the_overlay_of_the_migration_from_nsdelete_is_complete() -> Result<()> {
    let (complete, fragments) = kustomizations(NSDELETE)?;
    ensure!(
        complete.len() == 1 && fragments.is_empty(),
        "{complete:#?}{fragments}"
    );
    let copy = ManifestsCopy::with(complete.first().context("no kustomization")?)?;
    let rendered = rendered(&copy.overlay()).await?;
    for part in [
        "- --dry-run\n",
        "port: 5705\n",
        "port: 8443\n",
        "value: https://storageos.example.com:8443\n",
        "value: seen\n",
        "image: registry.example.com/volume-warden:1.2.3\n",
        "namespace: namespace-gc\n",
    ] {
        ensure!(rendered.contains(part), "no {part} in {rendered}");
    }
    ensure!(
        !rendered.contains("namespace: volume-warden\n"),
        "{rendered}"
    );
    Ok(())
}
