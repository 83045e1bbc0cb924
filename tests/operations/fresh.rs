//! Clusters in which Volume Warden is not installed, each for one test at a time. A test leaves
//! what it installs in the namespace `volume-warden`; the next one begins by removing it.

use crate::support::{
    kustomization::NAMESPACE,
    manifests, repository,
    shared::Shared,
    turns::{Place, Turn, first_free},
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

/// Where the API server sends reviews.
const SERVICE: &str = "volume-warden.volume-warden.svc";
static API_SERVERS: [Place; 6] = [const { Place::new() }; 6];
static CLUSTERS: [Place; 2] = [const { Place::new() }; 2];

/// A cluster for one test.
pub struct Fresh {
    cluster: Shared,
    _turn: Turn,
}

impl Fresh {
    /// For a namespace of the test.
    pub fn shared(&self) -> Shared {
        self.cluster.clone()
    }
}

impl Deref for Fresh {
    type Target = Cluster;

    fn deref(&self) -> &Cluster {
        &self.cluster
    }
}

/// A cluster without controllers. See [`Cluster::api_server`].
pub async fn api_server() -> Result<Fresh> {
    let start = async |name: &str| Cluster::api_server().name(name).start().await;
    fresh(first_free(&API_SERVERS, "api-server", start).await?).await
}

/// A cluster without controllers, and with the manifests applied.
pub async fn installed() -> Result<Fresh> {
    let fresh = api_server().await?;
    manifests::apply(&fresh, &repository().join("manifests")).await?;
    Ok(fresh)
}

/// A cluster with controllers, without those that Volume Warden replaces.
pub async fn cluster() -> Result<Fresh> {
    let start = async |name: &str| Cluster::without_in_tree().name(name).start().await;
    fresh(first_free(&CLUSTERS, "installable", start).await?).await
}

/// Removes what the last test left. A webhook may still be called a moment after its deletion, and
/// may fail closed.
async fn fresh((cluster, turn): (Shared, Turn)) -> Result<Fresh> {
    eventually("the earlier installation is removed", async || {
        uninstall(&cluster).await
    })
    .await?;
    Ok(Fresh {
        cluster,
        _turn: turn,
    })
}

/// Removes the webhooks and policies first, which would review the other deletions.
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
    delete_kinds(&client).await
}

/// Deletes the objects of that kind, which has no namespace, with `volume-warden` in their names.
async fn delete_named(client: &Client, resource: &ApiResource) -> Result<()> {
    let api: Api<DynamicObject> = Api::all_with(client.clone(), resource);
    let all = api.list_metadata(&ListParams::default()).await?.items;
    let names = all.iter().map(ResourceExt::name_any);
    let names = names.filter(|name| name.contains(NAMESPACE));
    let deletions = names.map(async |name| api.delete(&name, &DeleteParams::default()).await);
    try_join_all(deletions).await?;
    Ok(())
}

/// Deletes the claims in the namespace `default`, without their protection.
async fn delete_claims(client: &Client) -> Result<()> {
    let claims: Api<PersistentVolumeClaim> = Api::namespaced(client.clone(), "default");
    let free = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    for claim in claims.list_metadata(&ListParams::default()).await?.items {
        let name = claim.name_any();
        claims.patch(&name, &PatchParams::default(), &free).await?;
        claims.delete(&name, &DeleteParams::default()).await?;
    }
    Ok(())
}

/// Deletes the namespace of the installation with its objects, and waits until it is gone.
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
        end_namespace(client, &namespaces).await?;
    }
    eventually("the namespace of the installation is gone", async || {
        ensure!(namespaces.get_opt(NAMESPACE).await?.is_none());
        anyhow::Ok(())
    })
    .await
}

/// Ends the deletion of the namespace as the namespace controller does.
async fn end_namespace(client: &Client, namespaces: &Api<Namespace>) -> Result<()> {
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

/// Deletes the kinds of other products with their objects, and waits until they are gone.
async fn delete_kinds(client: &Client) -> Result<()> {
    let kinds: Api<CustomResourceDefinition> = Api::all(client.clone());
    let all = ListParams::default();
    if kinds.list_metadata(&all).await?.items.is_empty() {
        return Ok(());
    }
    kinds
        .delete_collection(&DeleteParams::default(), &all)
        .await?;
    eventually("the kinds of other products are gone", async || {
        ensure!(kinds.list_metadata(&all).await?.items.is_empty());
        anyhow::Ok(())
    })
    .await
}
