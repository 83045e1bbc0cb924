//! Applies manifests server-side, as `kubectl apply --server-side --force-conflicts -k` does.
//! kubectl itself would need a second of the processor each time, most of it for the OpenAPI
//! document.

use anyhow::{Context, Result};
use kube::{
    Api, Client,
    api::{ApiResource, DynamicObject, Patch, PatchParams},
    core::{GroupVersionKind, TypeMeta},
};
use std::path::Path;
use volume_warden_controlplane::Cluster;

/// Kinds without a namespace. Kustomize does not know them and adds a namespace.
pub const CLUSTER_SCOPED: [&str; 4] = [
    "FlowSchema",
    "PriorityLevelConfiguration",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
];

/// Applies the directory with a `kustomization.yaml`, in the order in which kustomize renders it.
pub async fn apply(cluster: &Cluster, directory: &Path) -> Result<()> {
    let directory = directory.to_str().context("a path in UTF-8")?;
    let rendered = cluster.kubectl(&["kustomize", directory]).await?;
    let client = cluster.client();
    for object in serde_saphyr::from_multiple::<DynamicObject>(&rendered)? {
        let name = object.metadata.name.clone().context("a name")?;
        let applied = apply_object(&client, &name, object).await;
        applied.with_context(|| format!("applying {name} of {directory}"))?;
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
