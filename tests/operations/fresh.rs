//! Clusters in which Volume Warden is not installed, each used by one test at a time. A test does
//! not remove its installation in the namespace `volume-warden`; the next test on the same cluster
//! removes it first.

use crate::support::{
    kustomization::NAMESPACE,
    manifests, repository,
    shared::Shared,
    turns::{Place, Turn, acquire_free},
};
use anyhow::{Context, Result, ensure};
use futures::future::try_join_all;
use k8s_openapi::{
    api::{
        admissionregistration::v1::{
            MutatingWebhookConfiguration, ValidatingAdmissionPolicy,
            ValidatingAdmissionPolicyBinding, ValidatingWebhookConfiguration,
        },
        apps::v1::Deployment,
        coordination::v1::Lease,
        core::v1::{
            ConfigMap, Event, Namespace, PersistentVolumeClaim, Secret, Service, ServiceAccount,
        },
        flowcontrol::v1::{FlowSchema, PriorityLevelConfiguration},
        networking::v1::NetworkPolicy,
        policy::v1::PodDisruptionBudget,
        rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding},
    },
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api, Client, ResourceExt,
    api::{ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams},
};
use serde_json::json;
use std::ops::Deref;
use volume_warden_controlplane::{Cluster, eventually};

/// The name of the Service to which the API server sends reviews.
const SERVICE: &str = "volume-warden.volume-warden.svc";
static API_SERVERS: [Place; 6] = [const { Place::new() }; 6];
static CLUSTERS: [Place; 2] = [const { Place::new() }; 2];

/// A cluster for the exclusive use of one test.
pub struct FreshCluster {
    cluster: Shared,
    _turn: Turn,
}

impl FreshCluster {
    /// The cluster as a shared handle, which `Space` requires.
    pub fn shared(&self) -> Shared {
        self.cluster.clone()
    }
}

impl Deref for FreshCluster {
    type Target = Cluster;

    fn deref(&self) -> &Cluster {
        &self.cluster
    }
}

/// A cluster without controllers, from [`Cluster::api_server`].
pub async fn api_server() -> Result<FreshCluster> {
    let start = async |name: &str| Cluster::api_server().name(name).start().await;
    without_installation(acquire_free(&API_SERVERS, "api-server", start).await?).await
}

/// A cluster without controllers, with the manifests applied.
pub async fn installed() -> Result<FreshCluster> {
    let fresh = api_server().await?;
    manifests::apply(&fresh, &repository().join("manifests")).await?;
    Ok(fresh)
}

/// A cluster with controllers, except those that Volume Warden replaces.
pub async fn cluster() -> Result<FreshCluster> {
    let start = async |name: &str| Cluster::without_in_tree().name(name).start().await;
    without_installation(acquire_free(&CLUSTERS, "installable", start).await?).await
}

/// Removes the installation of the previous test. Retries, because the API server may call a
/// webhook shortly after its deletion, and such a call may fail closed.
async fn without_installation((cluster, turn): (Shared, Turn)) -> Result<FreshCluster> {
    eventually("the previous installation is removed", async || {
        uninstall(&cluster).await
    })
    .await?;
    Ok(FreshCluster {
        cluster,
        _turn: turn,
    })
}

/// Removes the webhooks and policies first, because they would review the other deletions.
async fn uninstall(cluster: &Cluster) -> Result<()> {
    cluster.webhooks().serve(SERVICE, vec![]);
    let client = cluster.client();
    let admission = [
        ApiResource::erase::<MutatingWebhookConfiguration>(&()),
        ApiResource::erase::<ValidatingWebhookConfiguration>(&()),
        ApiResource::erase::<ValidatingAdmissionPolicyBinding>(&()),
        ApiResource::erase::<ValidatingAdmissionPolicy>(&()),
    ];
    let rest = [
        ApiResource::erase::<ClusterRoleBinding>(&()),
        ApiResource::erase::<ClusterRole>(&()),
        ApiResource::erase::<FlowSchema>(&()),
        ApiResource::erase::<PriorityLevelConfiguration>(&()),
    ];
    for resource in admission.iter().chain(&rest) {
        delete_named(&client, resource).await?;
    }
    delete_claims(&client).await?;
    delete_namespace(cluster, &client).await?;
    delete_crds(&client).await
}

/// Deletes the objects of a cluster-scoped kind that have `volume-warden` in their names.
async fn delete_named(client: &Client, resource: &ApiResource) -> Result<()> {
    let api: Api<DynamicObject> = Api::all_with(client.clone(), resource);
    let all = api.list_metadata(&ListParams::default()).await?.items;
    let names = all.iter().map(ResourceExt::name_any);
    let names = names.filter(|name| name.contains(NAMESPACE));
    let deletions = names.map(async |name| api.delete(&name, &DeleteParams::default()).await);
    try_join_all(deletions).await?;
    Ok(())
}

/// Removes the finalizers of the claims in the namespace `default`, and deletes the claims.
async fn delete_claims(client: &Client) -> Result<()> {
    let claims: Api<PersistentVolumeClaim> = Api::namespaced(client.clone(), "default");
    let no_finalizers = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    for claim in claims.list_metadata(&ListParams::default()).await?.items {
        let name = claim.name_any();
        claims
            .patch(&name, &PatchParams::default(), &no_finalizers)
            .await?;
        claims.delete(&name, &DeleteParams::default()).await?;
    }
    Ok(())
}

/// Deletes the namespace of the installation with its objects, and waits until it is deleted.
async fn delete_namespace(cluster: &Cluster, client: &Client) -> Result<()> {
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let Some(namespace) = namespaces.get_opt(NAMESPACE).await? else {
        return Ok(());
    };
    if namespace.metadata.deletion_timestamp.is_none() {
        let parameters = DeleteParams::default();
        namespaces.delete(NAMESPACE, &parameters).await?;
    }
    if cluster.controllers().is_empty() {
        finalize_namespace(client, &namespaces).await?;
    }
    eventually("the namespace of the installation is deleted", async || {
        ensure!(namespaces.get_opt(NAMESPACE).await?.is_none());
        anyhow::Ok(())
    })
    .await
}

/// Deletes the objects of the namespace and removes its finalizers, as the namespace controller
/// does.
async fn finalize_namespace(client: &Client, namespaces: &Api<Namespace>) -> Result<()> {
    for resource in [
        ApiResource::erase::<Deployment>(&()),
        ApiResource::erase::<PodDisruptionBudget>(&()),
        ApiResource::erase::<NetworkPolicy>(&()),
        ApiResource::erase::<Service>(&()),
        ApiResource::erase::<RoleBinding>(&()),
        ApiResource::erase::<Role>(&()),
        ApiResource::erase::<ServiceAccount>(&()),
        ApiResource::erase::<Secret>(&()),
        ApiResource::erase::<ConfigMap>(&()),
        ApiResource::erase::<Lease>(&()),
        ApiResource::erase::<Event>(&()),
    ] {
        let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), NAMESPACE, &resource);
        let all = ListParams::default();
        api.delete_collection(&DeleteParams::default(), &all)
            .await?;
    }
    let mut namespace = namespaces.get(NAMESPACE).await?;
    let spec = namespace.spec.as_mut().context("a namespace has a spec")?;
    spec.finalizers = None;
    let parameters = PostParams::default();
    namespaces
        .replace_subresource("finalize", NAMESPACE, &parameters, &namespace)
        .await?;
    Ok(())
}

/// Deletes all CustomResourceDefinitions with their objects, and waits until they are deleted.
async fn delete_crds(client: &Client) -> Result<()> {
    let crds: Api<CustomResourceDefinition> = Api::all(client.clone());
    let all = ListParams::default();
    if crds.list_metadata(&all).await?.items.is_empty() {
        return Ok(());
    }
    crds.delete_collection(&DeleteParams::default(), &all)
        .await?;
    eventually("the CustomResourceDefinitions are deleted", async || {
        ensure!(crds.list_metadata(&all).await?.items.is_empty());
        anyhow::Ok(())
    })
    .await
}
