//! Lists objects of the kinds that decide about the use of claims: one LIST for each kind, in
//! pages, with the caller's rights.

use super::{
    custom::{self, ReferencePath, Referrer},
    list::{list, list_as},
};
use crate::{
    cluster::{error_message, scoped},
    objects::{Pod, Workload, pod::PodWire, volume::VolumeWire, workload::WorkloadWire},
};
use k8s_openapi::{
    NamespaceResourceScope,
    api::{
        apps::v1::{Deployment, StatefulSet},
        batch::v1::{CronJob, Job},
        core::v1::PersistentVolumeClaim,
    },
};
use kube::{
    Api, Client, Resource,
    api::{ApiResource, DynamicObject, GroupVersionKind},
};
use std::fmt::Debug;

/// Claims, volumes, and what uses or names them.
#[derive(Debug, Default)]
pub struct Listed {
    /// All claims that were listed.
    pub claims: Vec<PersistentVolumeClaim>,
    /// The pods, with the names of their namespaces. They were listed after the claims.
    pub pods: Vec<(String, Pod)>,
    /// All volumes of the cluster, with or without a claim.
    pub volumes: Vec<VolumeWire>,
    /// The StatefulSets, Deployments, CronJobs and Jobs, also those that run no pods now.
    pub workloads: Vec<Workload>,
    /// The VolumeSnapshots, if the cluster has that kind.
    pub snapshots: Vec<DynamicObject>,
    /// The custom resources that name claims.
    pub referrers: Vec<Referrer>,
    /// The kinds that could not be listed, in the plural, without custom resources, which are only
    /// in `errors`. Nothing is known about the objects of these kinds.
    pub unlisted: Vec<&'static str>,
    /// Why something could not be listed, each as a sentence.
    pub errors: Vec<String>,
}

/// Lists the objects of a namespace, or of all, and all volumes. Custom resources are listed where
/// `paths` says that they name claims.
///
/// # Errors
/// When the claims or the pods could not be listed. Without them nothing is known about use.
pub async fn read(
    client: &Client,
    namespace: Option<&str>,
    paths: &[ReferencePath],
) -> kube::Result<Listed> {
    // The pods are listed after the claims, so that a claim that gets its first pod meanwhile is
    // not reported.
    let claims = list(&scoped(client, namespace)).await?;
    let pods = list_as(&scoped(client, namespace), of_namespace).await?;
    let snapshot = GroupVersionKind::gvk("snapshot.storage.k8s.io", "v1", "VolumeSnapshot");
    let snapshot = ApiResource::from_gvk(&snapshot);
    let snapshots = match namespace {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &snapshot),
        None => Api::all_with(client.clone(), &snapshot),
    };
    let volumes = Api::<VolumeWire>::all(client.clone());
    let (volumes, snapshots, workloads) = tokio::join!(
        list(&volumes),
        list(&snapshots),
        read_workloads(client, namespace, paths),
    );
    let mut listed = Listed {
        claims,
        pods,
        ..workloads
    };
    listed.volumes = listed.known("PersistentVolumes", volumes);
    listed.snapshots = listed.optional("VolumeSnapshots", snapshots);
    Ok(listed)
}

/// Lists all StatefulSets, Deployments, CronJobs and Jobs of a namespace or of all, and custom
/// resources where `paths` says that they name claims. What could not be listed is in
/// [`Listed::errors`].
pub async fn read_workloads(
    client: &Client,
    namespace: Option<&str>,
    paths: &[ReferencePath],
) -> Listed {
    let mut listed = Listed::default();
    let (sets, deployments, cron_jobs, jobs, (referrers, errors)) = tokio::join!(
        of::<StatefulSet>(client, namespace),
        of::<Deployment>(client, namespace),
        of::<CronJob>(client, namespace),
        of::<Job>(client, namespace),
        custom::read(client, namespace, paths),
    );
    for (what, workloads) in [
        ("StatefulSets", sets),
        ("Deployments", deployments),
        ("CronJobs", cron_jobs),
        ("Jobs", jobs),
    ] {
        let known = listed.known(what, workloads);
        listed.workloads.extend(known);
    }
    listed.referrers = referrers;
    listed.errors.extend(errors);
    listed
}

impl Listed {
    /// Returns what was listed of a kind that a cluster may lack: an answer of 404 counts as no
    /// objects. Any other error is handled as [`Self::known`] does.
    fn optional<K>(&mut self, what: &'static str, listed: kube::Result<Vec<K>>) -> Vec<K> {
        match listed {
            Err(kube::Error::Api(status)) if status.code == 404 => Vec::new(),
            listed => self.known(what, listed),
        }
    }

    /// Returns what was listed of a kind that every cluster has. After an error it returns no
    /// objects, and records the kind in `unlisted` and the reason in `errors`.
    fn known<K>(&mut self, what: &'static str, listed: kube::Result<Vec<K>>) -> Vec<K> {
        match listed {
            Ok(listed) => listed,
            Err(error) => {
                let why = error_message(&error);
                let error = format!("{what} could not be listed, so they are left out: {why}");
                self.unlisted.push(what);
                self.errors.push(error);
                Vec::new()
            }
        }
    }
}

fn of_namespace(pod: PodWire) -> (String, Pod) {
    let namespace = pod.metadata.namespace.clone().unwrap_or_default();
    (namespace, Pod::from(pod))
}

async fn of<K>(client: &Client, namespace: Option<&str>) -> kube::Result<Vec<Workload>>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug,
{
    list_as(
        &scoped::<WorkloadWire<K>>(client, namespace),
        Workload::from,
    )
    .await
}
