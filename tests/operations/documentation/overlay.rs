//! The kustomizations of the page about kustomize, as the overlay `own` in a copy of the manifests.

use crate::support::repository;
use anyhow::{Context, Result, ensure};
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};
use tempfile::TempDir;

const PAGE: &str = "docs/install/kustomize.md";
/// The overlay, as commands name it.
pub const OWN: &str = "manifests/overlays/own";

/// A directory with a copy of the manifests, which contains the overlay.
pub struct Copied(TempDir);

impl Copied {
    /// With the first kustomization of the page, which names an image.
    pub fn first() -> Result<Self> {
        let (complete, _) = kustomizations()?;
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
pub fn kustomizations() -> Result<(Vec<String>, String)> {
    let page = fs::read_to_string(repository().join(PAGE))?;
    let blocks = page.split("```yaml\n").skip(1);
    let blocks = blocks.filter_map(|block| block.split("```").next().map(str::to_owned));
    let (complete, fragments): (Vec<_>, Vec<_>) =
        blocks.partition(|block| block.contains("kind: Kustomization"));
    Ok((complete, fragments.concat()))
}

/// The text with values for its placeholders.
pub fn with_values(text: &str) -> String {
    let text = text.replace("REGISTRY", "registry.example.com");
    text.replace("TAG", "1.2.3")
}
