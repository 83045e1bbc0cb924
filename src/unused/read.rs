//! Lists everything that the report needs: one call for each kind, with the caller's rights.

use super::{
    custom::{self, ReferencePath, Referrer},
    list::list,
};
use crate::{
    cluster::{error_message, scoped},
    objects::{Pod, pod::PodWire, volume::VolumeWire},
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
use serde::de::DeserializeOwned;
use std::fmt::Debug;

/// All objects that the report is about.
#[derive(Debug, Default)]
pub struct Listed {
    /// The claims.
    pub claims: Vec<PersistentVolumeClaim>,
    /// The pods, with the names of their namespaces. They were listed after the claims.
    pub pods: Vec<(String, Pod)>,
    /// The volumes.
    pub volumes: Vec<VolumeWire>,
    /// The StatefulSets.
    pub stateful_sets: Vec<StatefulSet>,
    /// The Deployments.
    pub deployments: Vec<Deployment>,
    /// The CronJobs.
    pub cron_jobs: Vec<CronJob>,
    /// The Jobs.
    pub jobs: Vec<Job>,
    /// The VolumeSnapshots, if the cluster has that kind.
    pub snapshots: Vec<DynamicObject>,
    /// The custom resources that name claims.
    pub referrers: Vec<Referrer>,
    /// The kinds that could not be listed, in the plural. The report then lacks them.
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
    // The pods after the claims: a claim that got its first pod meanwhile is not reported.
    let claims = list(&scoped(client, namespace)).await?;
    let pods: Vec<PodWire> = list(&scoped(client, namespace)).await?;
    let pods = pods.into_iter().map(|pod| {
        let namespace = pod.metadata.namespace.clone().unwrap_or_default();
        (namespace, Pod::from(pod))
    });
    let mut listed = Listed {
        claims,
        pods: pods.collect(),
        ..Listed::default()
    };
    let snapshot = GroupVersionKind::gvk("snapshot.storage.k8s.io", "v1", "VolumeSnapshot");
    let snapshot = ApiResource::from_gvk(&snapshot);
    let snapshots = match namespace {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &snapshot),
        None => Api::all_with(client.clone(), &snapshot),
    };
    let volumes = Api::<VolumeWire>::all(client.clone());
    let (volumes, snapshots, sets, deployments, cron_jobs, jobs) = tokio::join!(
        list(&volumes),
        list(&snapshots),
        of::<StatefulSet>(client, namespace),
        of::<Deployment>(client, namespace),
        of::<CronJob>(client, namespace),
        of::<Job>(client, namespace),
    );
    listed.volumes = listed.optional("PersistentVolumes", volumes);
    listed.snapshots = listed.optional("VolumeSnapshots", snapshots);
    listed.stateful_sets = listed.optional("StatefulSets", sets);
    listed.deployments = listed.optional("Deployments", deployments);
    listed.cron_jobs = listed.optional("CronJobs", cron_jobs);
    listed.jobs = listed.optional("Jobs", jobs);
    let (referrers, errors) = custom::read(client, namespace, paths).await;
    listed.referrers = referrers;
    listed.errors.extend(errors);
    Ok(listed)
}

impl Listed {
    /// Returns what was listed. A kind that does not exist has no objects.
    fn optional<K>(&mut self, what: &'static str, listed: kube::Result<Vec<K>>) -> Vec<K> {
        match listed {
            Ok(listed) => listed,
            Err(kube::Error::Api(status)) if status.code == 404 => Vec::new(),
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

async fn of<K>(client: &Client, namespace: Option<&str>) -> kube::Result<Vec<K>>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + Debug
        + DeserializeOwned,
{
    list(&scoped(client, namespace)).await
}
