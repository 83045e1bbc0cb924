//! The kustomizations that pages show, as the overlay `own` in a copy of the manifests.

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
/// The overlay, as commands name it.
pub const OWN: &str = "manifests/overlays/own";

/// A directory with a copy of the manifests, which contains the overlay.
pub struct Copied(TempDir);

impl Copied {
    /// With the first kustomization of the page about kustomize, which names an image.
    pub fn first() -> Result<Self> {
        let (complete, _) = kustomizations(KUSTOMIZE)?;
        Self::with(complete.first().context("no kustomization")?)
    }

    pub fn with(kustomization: &str) -> Result<Self> {
        let copy = tempfile::tempdir()?;
        let copied = Command::new("cp")
            .arg("-r")
            .arg(repository().join("manifests"))
            // The overlay cert-manager contains it.
            .arg(repository().join("certs"))
            .arg(copy.path())
            .status()?;
        ensure!(copied.success(), "the manifests are copied");
        let directory = copy.path().join(OWN);
        fs::create_dir_all(&directory)?;
        let file = directory.join("kustomization.yaml");
        fs::write(file, with_values(kustomization))?;
        Ok(Self(copy))
    }

    /// The directory that contains `manifests`.
    pub fn root(&self) -> &Path {
        self.0.path()
    }

    pub fn overlay(&self) -> PathBuf {
        self.root().join(OWN)
    }
}

/// The complete kustomizations of the page, and the fragments that can be added to each.
pub fn kustomizations(page: &str) -> Result<(Vec<String>, String)> {
    let page = fs::read_to_string(repository().join(page))?;
    let blocks = page.split("```yaml\n").skip(1);
    // A block in a list is indented, which is YAML, too.
    let blocks =
        blocks.filter_map(|block| Some(block.split("```").next()?.trim_end().to_owned() + "\n"));
    let (complete, fragments): (Vec<_>, Vec<_>) =
        blocks.partition(|block| block.contains("kind: Kustomization"));
    Ok((complete, fragments.concat()))
}

/// The text with values for its placeholders.
pub fn with_values(text: &str) -> String {
    let text = text.replace("REGISTRY", "registry.example.com");
    text.replace("TAG", "1.2.3")
}

/// Each address of the API and each variable has an effect, also in the namespace of the overlay.
#[tokio::test]
async fn the_overlay_of_the_migration_from_nsdelete_is_complete() -> Result<()> {
    let (complete, fragments) = kustomizations(NSDELETE)?;
    ensure!(
        complete.len() == 1 && fragments.is_empty(),
        "{complete:#?}{fragments}"
    );
    let copied = Copied::with(complete.first().context("no kustomization")?)?;
    let rendered = rendered(&copied.overlay()).await?;
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
