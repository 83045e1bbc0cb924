//! The Helm chart, which installs the same objects as the kustomizations in `manifests`.

mod cluster;
mod collecting;
mod effects;
mod flags;
mod notes;
mod promises;
mod renamed;
mod render;
mod settings;
mod upgrade;
mod values;

use crate::support::repository;
use anyhow::Result;
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::{collections::BTreeMap, fs, path::PathBuf, sync::Arc};
use tempfile::TempDir;
use tokio::sync::OnceCell;
use volume_warden_controlplane::Helm;

const COMPONENTS: [&str; 9] = [
    "pvc-protection",
    "pv-protection",
    "pvc-retention",
    "pvc-provisioner",
    "pv-releaser",
    "pvc-trash",
    "pvc-expiry",
    "trash-list",
    "namespace-gc",
];

/// The components that no overlay contains. They have no effect without pvc-trash.
const OFF_BY_DEFAULT: [&str; 2] = ["pvc-expiry", "trash-list"];

/// The components that the chart and the overlays install by default.
fn default_components() -> Vec<&'static str> {
    let all = COMPONENTS.into_iter();
    all.filter(|name| !OFF_BY_DEFAULT.contains(name)).collect()
}

fn chart() -> PathBuf {
    repository().join("manifests/helm/volume-warden")
}

/// The key of the section of a component in the values: `pvcProtection` for `pvc-protection`.
fn section(component: &str) -> String {
    let mut words = component.split('-');
    let first = words.next().unwrap_or_default().to_owned();
    words.fold(first, |key, word| {
        let (initial, rest) = word.split_at(1);
        key + &initial.to_uppercase() + rest
    })
}

/// Values that disable every component except these.
fn only(components: &[&str]) -> Value {
    let switches = COMPONENTS.map(|name| {
        let enabled = components.contains(&name);
        (section(name), json!({"enabled": enabled}))
    });
    Value::Object(serde_json::Map::from_iter(switches))
}

/// A temporary file with values, for `--values`.
struct ValuesFile(TempDir);

impl ValuesFile {
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
    template_with(values, namespace, &["--skip-tests"]).await
}

/// The objects that the chart renders with these options of `helm template`. Without
/// `--skip-tests`, they include the Pod of `helm test`.
///
/// Helm runs once for each input that the chart accepts, because no test changes the chart.
async fn template_with(values: &Value, namespace: &str, options: &[&str]) -> Result<String> {
    static RENDERED: Mutex<BTreeMap<String, Arc<OnceCell<String>>>> = Mutex::new(BTreeMap::new());
    let input = format!("{namespace} {options:?} {values}");
    let rendered = RENDERED.lock().entry(input).or_default().clone();
    let run = || run_template(values, namespace, options);
    rendered.get_or_try_init(run).await.cloned()
}

async fn run_template(values: &Value, namespace: &str, options: &[&str]) -> Result<String> {
    let (chart, values) = (chart().display().to_string(), ValuesFile::new(values)?);
    let path = values.path();
    let arguments = ["template", "any", &chart, "--namespace", namespace];
    let values = ["--values", &path];
    let helm = Helm::locate().await?;
    helm.run(&[&arguments, &values[..], options].concat()).await
}
