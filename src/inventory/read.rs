//! Lists objects of the kinds that decide about the use of claims: one LIST for each kind, in
//! pages, with the caller's permissions.

use super::{
    custom::{self, ReferencePath, Referrer},
    list::{get, list, list_as},
};
use crate::{
    cluster::{error_message, scoped},
    hashing::HashMap,
    objects::{
        AnyObject, ListedClaim, Namespace, Pod, Tracked as _, Workload, namespace::NamespaceWire,
        pod::PodWire, volume::VolumeWire, workload::WorkloadWire,
    },
};
use futures::{FutureExt as _, future::join_all};
use k8s_openapi::{
    NamespaceResourceScope,
    api::{
        apps::v1::{DaemonSet, Deployment, ReplicaSet, StatefulSet},
        batch::v1::{CronJob, Job},
        core::v1::ReplicationController,
    },
};
use kube::{
    Api, Client, Resource, ResourceExt as _,
    api::{ApiResource, GroupVersionKind},
};
use std::fmt::Debug;

/// Claims, volumes, and what uses or names them.
#[derive(Debug, Default)]
pub struct Listed {
    /// All claims that were listed.
    pub claims: Vec<ListedClaim>,
    /// The pods, with the names of their namespaces. They were listed after the claims.
    pub pods: Vec<(String, Pod)>,
    /// All volumes of the cluster, with or without a claim.
    pub volumes: Vec<VolumeWire>,
    /// The workloads of all kinds, also those that run no pods now.
    pub workloads: Vec<Workload>,
    /// The VolumeSnapshots of claims, if the cluster has that kind.
    pub snapshots: Vec<Referrer>,
    /// The custom resources that name claims.
    pub referrers: Vec<Referrer>,
    /// The namespaces by name, after [`Listed::read_namespaces`].
    pub namespaces: HashMap<String, Namespace>,
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
    let snapshots: Api<AnyObject> = match namespace {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &snapshot),
        None => Api::all_with(client.clone(), &snapshot),
    };
    let volumes = Api::<VolumeWire>::all(client.clone());
    let (volumes, snapshots, workloads) = tokio::join!(
        list(&volumes),
        list_as(&snapshots, of_snapshot),
        read_workloads(client, namespace, paths),
    );
    let mut listed = Listed {
        claims,
        pods,
        ..workloads
    };
    listed.volumes = listed.known("PersistentVolumes", volumes);
    let snapshots = listed.optional("VolumeSnapshots", snapshots);
    listed.snapshots = snapshots.into_iter().flatten().collect();
    Ok(listed)
}

/// Lists the workloads of a namespace or of all, and custom resources where `paths` says that they
/// name claims. What could not be listed is in [`Listed::errors`].
pub async fn read_workloads(
    client: &Client,
    namespace: Option<&str>,
    paths: &[ReferencePath],
) -> Listed {
    let mut listed = Listed::default();
    let workloads = join_all([
        of::<StatefulSet>(client, namespace, "StatefulSets").boxed(),
        of::<Deployment>(client, namespace, "Deployments").boxed(),
        of::<DaemonSet>(client, namespace, "DaemonSets").boxed(),
        of::<ReplicaSet>(client, namespace, "ReplicaSets").boxed(),
        of::<ReplicationController>(client, namespace, "ReplicationControllers").boxed(),
        of::<CronJob>(client, namespace, "CronJobs").boxed(),
        of::<Job>(client, namespace, "Jobs").boxed(),
    ]);
    let custom = custom::read(client, namespace, paths);
    let (workloads, (referrers, errors)) = tokio::join!(workloads, custom);
    for (what, workloads) in workloads {
        let known = listed.known(what, workloads);
        listed.workloads.extend(known);
    }
    listed.referrers = referrers;
    listed.errors.extend(errors);
    listed
}

impl Listed {
    /// Adds the namespaces: all, or only the one with this name. If they cannot be read,
    /// [`Listed::errors`] says so.
    pub async fn read_namespaces(&mut self, client: &Client, name: Option<&str>) {
        let api = Api::<NamespaceWire>::all(client.clone());
        let read = match name {
            // Users of one namespace may read it, but not list all.
            Some(name) => get(&api, name)
                .await
                .map(|found| found.into_iter().collect()),
            None => list(&api).await,
        };
        let namespaces = self.known("Namespaces", read).into_iter();
        self.namespaces = namespaces
            .filter_map(|namespace| Some((namespace.name_any(), Namespace::track(namespace)?)))
            .collect();
    }

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

/// Returns what a VolumeSnapshot names; none if it is not one of a claim.
fn of_snapshot(snapshot: AnyObject) -> Option<Referrer> {
    let source = "/spec/source/persistentVolumeClaimName";
    let claim = snapshot.whole.pointer(source)?.as_str()?;
    Some(Referrer {
        namespace: snapshot.namespace().unwrap_or_default(),
        what: format!("VolumeSnapshot {}", snapshot.name_any()),
        claims: vec![claim.to_owned()],
    })
}

/// Lists the workloads of a kind, and returns them with the name of the kind in the plural.
async fn of<K>(
    client: &Client,
    namespace: Option<&str>,
    what: &'static str,
) -> (&'static str, kube::Result<Vec<Workload>>)
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug,
{
    let api = scoped::<WorkloadWire<K>>(client, namespace);
    (what, list_as(&api, Workload::from).await)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::test_server::answering;
    use serde_json::{Value, json};

    /// Objects, each with the end of the path of its LIST.
    type Objects = &'static [(&'static str, fn() -> Value)];

    /// What is listed if the API server has only these objects.
    async fn listed(objects: Objects) -> kube::Result<Listed> {
        let client = answering(move |head, _| {
            let path = head.uri.path();
            let items = objects.iter().filter(|(end, _)| path.ends_with(end));
            let items: Vec<_> = items.map(|(_, object)| object()).collect();
            (200, json!({"metadata": {}, "items": items}))
        });
        read(&client, None, &[]).await
    }

    /// Metadata with a time that users can write, and that Rust cannot represent.
    fn metadata(name: &str) -> Value {
        let managed = json!([{"manager": "a", "time": "9999-12-31T23:59:59Z"}]);
        json!({"namespace": "shop", "name": name, "managedFields": managed})
    }

    #[tokio::test]
    async fn no_object_of_a_tenant_fails_a_list() {
        let listed = listed(&[
            ("/persistentvolumeclaims", || {
                let condition = json!({"type": "Other", "status": "True",
                    "lastTransitionTime": "9999-12-31T23:59:59Z", "lastProbeTime": "9999-12-31T23:59:59Z"});
                json!({"metadata": metadata("data"), "status": {"conditions": [condition]}})
            }),
            ("/volumesnapshots", || {
                let source = json!({"persistentVolumeClaimName": "data"});
                json!({"metadata": metadata("daily"), "spec": {"source": source}})
            }),
            ("/volumesnapshots", || {
                let source = json!({"volumeSnapshotContentName": "content"});
                json!({"metadata": metadata("other"), "spec": {"source": source}})
            }),
        ]);
        let listed = listed.await.expect("a list");
        let claims: Vec<_> = listed.claims.iter().map(|claim| claim.name_any()).collect();
        assert_eq!(claims, ["data"]);
        let snapshot = Referrer {
            namespace: "shop".to_owned(),
            what: "VolumeSnapshot daily".to_owned(),
            claims: vec!["data".to_owned()],
        };
        assert_eq!(listed.snapshots, [snapshot]);
    }
}
