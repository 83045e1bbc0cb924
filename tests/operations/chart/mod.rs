//! The Helm chart: it installs what `manifests/` install.

mod cluster;
mod collecting;
mod render;
mod settings;
mod values;

use crate::support::repository;
use anyhow::Result;
use serde_json::{Value, json};
use std::{fs, path::PathBuf};
use tempfile::TempDir;
use volume_warden_controlplane::Helm;

const COMPONENTS: [&str; 6] = [
    "pvc-protection",
    "pv-protection",
    "pvc-retention",
    "pvc-provisioner",
    "pv-releaser",
    "namespace-gc",
];

fn chart() -> PathBuf {
    repository().join("manifests/helm/volume-warden")
}

/// Values that disable every component but these.
fn only(components: &[&str]) -> Value {
    let switches = COMPONENTS.map(|name| {
        let enabled = components.contains(&name);
        (name.to_owned(), json!({"enabled": enabled}))
    });
    json!({"components": serde_json::Map::from_iter(switches)})
}

/// A file of values, for `--values`.
struct Values(TempDir);

impl Values {
    fn new(values: &Value) -> Result<Self> {
        let directory = tempfile::tempdir()?;
        fs::write(directory.path().join("values.yaml"), values.to_string())?;
        Ok(Self(directory))
    }

    fn path(&self) -> String {
        self.0.path().join("values.yaml").display().to_string()
    }
}

/// The objects that the chart renders for a release in that namespace.
async fn template(values: &Value, namespace: &str) -> Result<String> {
    let (chart, values) = (chart().display().to_string(), Values::new(values)?);
    let arguments = ["template", "any", &chart, "--namespace", namespace];
    let values = ["--values".to_owned(), values.path()];
    let values: Vec<_> = values.iter().map(String::as_str).collect();
    let helm = Helm::locate().await?;
    helm.run(&[&arguments[..], &values].concat()).await
}
