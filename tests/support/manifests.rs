//! Renders and applies manifests, the latter as `kubectl apply --server-side --force-conflicts -k`
//! does. kubectl itself would need a second of CPU time for each call, mostly for the OpenAPI
//! document.

use super::repository;
use anyhow::{Context, Result, ensure};
use kube::{
    Api, Client,
    api::{ApiResource, DynamicObject, Patch, PatchParams},
    core::{GroupVersionKind, TypeMeta},
};
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    process::Stdio,
    sync::Arc,
};
use tokio::{process::Command, sync::Mutex};
use volume_warden_controlplane::{Binaries, Cluster};

/// Cluster-scoped kinds that kustomize does not know, so that it adds a namespace to them.
pub const CLUSTER_SCOPED: [&str; 4] = [
    "FlowSchema",
    "PriorityLevelConfiguration",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
];

/// What `kubectl kustomize` prints for the directory. Directories of this repository are rendered
/// once, because no test changes them.
pub async fn rendered(directory: &Path) -> Result<Arc<str>> {
    static RENDERED: Mutex<BTreeMap<PathBuf, Arc<str>>> = Mutex::const_new(BTreeMap::new());
    if !directory.starts_with(repository()) {
        return kustomize(directory).await;
    }
    let mut rendered = RENDERED.lock().await;
    if let Some(text) = rendered.get(directory) {
        return Ok(text.clone());
    }
    let text = kustomize(directory).await?;
    rendered.insert(directory.to_owned(), text.clone());
    Ok(text)
}

async fn kustomize(directory: &Path) -> Result<Arc<str>> {
    let kubectl = || anyhow::Ok(Binaries::locate()?.path("kubectl"));
    let output = Command::new(tokio::task::spawn_blocking(kubectl).await??)
        .arg("kustomize")
        .arg(directory)
        // The process is too short to benefit from Go's garbage collector.
        .env("GOGC", "off")
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output()
        .await
        .context("starting kubectl")?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{}: {errors}", directory.display());
    Ok(String::from_utf8(output.stdout)?.into())
}

/// Applies the directory with a `kustomization.yaml`, in the order in which kustomize renders it.
pub async fn apply(cluster: &Cluster, directory: &Path) -> Result<()> {
    let rendered = rendered(directory).await?;
    let client = cluster.client();
    for object in serde_saphyr::from_multiple::<DynamicObject>(&rendered)? {
        let name = object.metadata.name.clone().context("a name")?;
        let applied = apply_object(&client, &name, object).await;
        applied.with_context(|| format!("applying {name} of {}", directory.display()))?;
    }
    Ok(())
}

async fn apply_object(client: &Client, name: &str, mut object: DynamicObject) -> Result<()> {
    let types: &TypeMeta = object.types.as_ref().context("a kind")?;
    if CLUSTER_SCOPED.contains(&types.kind.as_str()) {
        object.metadata.namespace = None;
    }
    let resource = ApiResource::from_gvk(&GroupVersionKind::try_from(types)?);
    let api: Api<DynamicObject> = match &object.metadata.namespace {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    };
    let parameters = PatchParams::apply("kubectl").force();
    api.patch(name, &parameters, &Patch::Apply(&object)).await?;
    Ok(())
}
