//! Kustomizations created for a test, as a user would write them for a choice of components.

use crate::support::repository;
use anyhow::{Context, Result};
use serde_json::json;
use std::{fs, path::Path};
use tempfile::TempDir;

/// The namespace of the manifests.
pub const NAMESPACE: &str = "volume-warden";

/// A directory with a `kustomization.yaml`.
pub struct Kustomization(TempDir);

impl Kustomization {
    /// Installs these components of `manifests/components` in this namespace.
    pub fn of(components: &[&str], namespace: &str) -> Result<Self> {
        Self::within(&repository().join("manifests"), components, namespace)
    }

    /// As [`Self::of`], with the directory of another version's manifests.
    pub fn within(manifests: &Path, components: &[&str], namespace: &str) -> Result<Self> {
        let directory = tempfile::tempdir()?;
        let manifests = relative(&directory.path().canonicalize()?, manifests)?;
        let components = components.iter();
        let components: Vec<_> = components
            .map(|name| format!("{manifests}/components/{name}"))
            .collect();
        let mut kustomization = json!({
            "apiVersion": "kustomize.config.k8s.io/v1beta1",
            "kind": "Kustomization",
            "labels": [{"pairs": {"app.kubernetes.io/name": "volume-warden", "app.kubernetes.io/part-of": "volume-warden"}}],
            "resources": [format!("{manifests}/base")],
            "components": components,
        });
        if namespace != NAMESPACE {
            kustomization["namespace"] = json!(namespace);
            let transformer = format!("{manifests}/transformers/own-namespace");
            kustomization["transformers"] = json!([transformer]);
        }
        let file = directory.path().join("kustomization.yaml");
        fs::write(file, kustomization.to_string())?;
        Ok(Self(directory))
    }

    pub fn path(&self) -> &Path {
        self.0.path()
    }
}

/// The path of `manifests` relative to `directory`: kustomize accepts no absolute path.
fn relative(directory: &Path, manifests: &Path) -> Result<String> {
    let up = "../".repeat(directory.components().count() - 1);
    let manifests = manifests.canonicalize()?;
    let down = manifests.strip_prefix("/")?;
    Ok(up + down.to_str().context("the path is not UTF-8")?)
}
