//! pvc-provisioner and pv-releaser, each installed alone, in one cluster that uses the built-in
//! protection of claims and volumes.

use super::installed_in;
use crate::support::{manifests, repository};
use anyhow::{Result, ensure};
use serde_json::Value;
use std::collections::BTreeSet;
use volume_warden_controlplane::{Cluster, Warden, eventually};

const ALONE: [&str; 2] = ["pvc-provisioner", "pv-releaser"];
/// Kinds of which the two overlays may contain objects of one name.
const NAMESPACED: [&str; 8] = [
    "NetworkPolicy",
    "Secret",
    "ServiceAccount",
    "Role",
    "RoleBinding",
    "Service",
    "Deployment",
    "PodDisruptionBudget",
];

/// A class with the reclaim policy Retain, and a pod that requests a claim of that class.
const CLASS: &str = r#"
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: caches}
provisioner: kubernetes.io/host-path
reclaimPolicy: Retain
"#;
const POD: &str = r#"
apiVersion: v1
kind: Pod
metadata:
  name: build
  namespace: default
  annotations:
    dynamic-pvc-provisioner.kubernetes.io/cache.enabled: "true"
    dynamic-pvc-provisioner.kubernetes.io/cache.pvc: |
      apiVersion: v1
      kind: PersistentVolumeClaim
      spec: {accessModes: [ReadWriteOnce], storageClassName: caches, resources: {requests: {storage: 1Gi}}}
spec:
  containers: [{name: main, image: main}]
  volumes: [{name: cache, persistentVolumeClaim: {claimName: cache}}]
"#;

/// Creates a volume as a provisioner does.
const VOLUME: &str = r#"
apiVersion: v1
kind: PersistentVolume
metadata: {name: cache, labels: {volume-warden.dev/release-scope: cluster}}
spec:
  accessModes: [ReadWriteOnce]
  capacity: {storage: 1Gi}
  persistentVolumeReclaimPolicy: Retain
  hostPath: {path: /tmp/cache}
  claimRef: {namespace: default, name: cache, uid: 00000000-0000-0000-0000-000000000000}
"#;

/// The objects of an overlay.
async fn rendered(component: &str) -> Result<Vec<Value>> {
    let overlay = repository().join("manifests/overlays").join(component);
    let text = manifests::rendered(&overlay).await?;
    Ok(serde_saphyr::from_multiple(&text)?)
}

fn string<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

fn identity(object: &Value) -> (&str, &str) {
    (string(object, "/kind"), string(object, "/metadata/name"))
}

/// Every string in the value, with its key.
fn strings<'a>(key: &'a str, value: &'a Value) -> Vec<(&'a str, &'a str)> {
    match value {
        Value::String(text) => vec![(key, text)],
        Value::Array(list) => list.iter().flat_map(|each| strings(key, each)).collect(),
        Value::Object(map) => map
            .iter()
            .flat_map(|(key, each)| strings(key, each))
            .collect(),
        _ => vec![],
    }
}

/// Neither overlay changes an object of the other.
#[tokio::test]
async fn the_two_share_no_object() -> Result<()> {
    let [provisioner, releaser] = [rendered(ALONE[0]).await?, rendered(ALONE[1]).await?];
    let in_the_cluster = |object: &&Value| !NAMESPACED.contains(&identity(object).0);
    let names = |objects| -> BTreeSet<_> {
        let objects: &Vec<Value> = objects;
        objects
            .iter()
            .filter(in_the_cluster)
            .map(identity)
            .collect()
    };
    let (provisioner, releaser) = (names(&provisioner), names(&releaser));
    let both: Vec<_> = provisioner.intersection(&releaser).collect();
    ensure!(both.is_empty() && !releaser.is_empty(), "in both: {both:?}");
    Ok(())
}

/// Every namespace that an overlay names is its own, and every object that it refers to exists.
#[tokio::test]
async fn each_is_complete_and_in_its_own_namespace() -> Result<()> {
    for component in ALONE {
        let objects = rendered(component).await?;
        for (key, text) in objects.iter().flat_map(|object| strings("", object)) {
            let own = match key {
                "namespace" => text == component,
                "expression" => {
                    let of_request = r#""system:serviceaccount:" + request.namespace"#;
                    !text.replace(of_request, "").contains("serviceaccount")
                        || text.contains(&format!(":{component}:"))
                }
                "values" => text == "true" || text == "kube-system" || text == component,
                _ => true,
            };
            ensure!(own, "{component}: {key}: {text}");
        }
        let there: BTreeSet<_> = objects.iter().map(identity).collect();
        for object in &objects {
            let (kind, name) = match identity(object).0 {
                "FlowSchema" => (
                    "PriorityLevelConfiguration",
                    string(object, "/spec/priorityLevelConfiguration/name"),
                ),
                "RoleBinding" | "ClusterRoleBinding" => (
                    string(object, "/roleRef/kind"),
                    string(object, "/roleRef/name"),
                ),
                _ => continue,
            };
            ensure!(
                there.contains(&(kind, name)),
                "{component}: there is no {kind} {name}"
            );
        }
    }
    Ok(())
}

/// Applies the overlay of this name and runs Volume Warden as it installs it.
async fn run(cluster: &Cluster, component: &str) -> Result<Warden> {
    let overlay = format!("manifests/overlays/{component}");
    installed_in(cluster, &overlay, component).await
}

async fn reviews(warden: &Warden, path: &str) -> Result<()> {
    let metrics = warden.metrics().await?;
    ensure!(
        metrics.contains(&format!("path=\"{path}\"")),
        "{path} was not called"
    );
    Ok(())
}

/// Waits until a dry run is reviewed, which changes nothing: then the API server knows the webhook
/// of that path and its CA.
async fn is_reviewed(cluster: &Cluster, object: &str, warden: &Warden, path: &str) -> Result<()> {
    eventually(&format!("{path} is called"), async || {
        let create = ["create", "--dry-run=server", "-f", "-"];
        cluster.kubectl_with_stdin(&create, object).await?;
        reviews(warden, path).await
    })
    .await
}

async fn volume_is(cluster: &Cluster, phase: &str) -> Result<()> {
    eventually(
        &format!("there is one volume, and it is {phase}"),
        async || {
            let phases = ["get", "pv", "-o", "jsonpath={.items[*].status.phase}"];
            let found = cluster.kubectl(&phases).await?;
            ensure!(found == phase, "{found}");
            Ok(())
        },
    )
    .await
}

/// Each installation works with its own account and Lease, and the rights of the two overlays are
/// enough.
#[tokio::test]
async fn both_work_in_one_cluster() -> Result<()> {
    let cluster = Cluster::in_tree().name("alone").start().await?;
    let [provisioner, releaser] = [
        run(&cluster, ALONE[0]).await?,
        run(&cluster, ALONE[1]).await?,
    ];
    for component in ALONE {
        let holder = [
            "get",
            "lease",
            component,
            "-n",
            component,
            "-o",
            "jsonpath={.spec.holderIdentity}",
        ];
        eventually("the component holds its own Lease", async || {
            let holder = cluster.kubectl(&holder).await?;
            ensure!(!holder.is_empty(), "no holder");
            Ok(())
        })
        .await?;
    }
    is_reviewed(&cluster, POD, &provisioner, "/pvc-provisioner/pods").await?;
    is_reviewed(&cluster, VOLUME, &releaser, "/pv-releaser/volumes").await?;
    cluster
        .kubectl_with_stdin(&["create", "-f", "-"], CLASS)
        .await?;
    cluster
        .kubectl_with_stdin(&["create", "-f", "-"], POD)
        .await?;
    volume_is(&cluster, "Bound").await?;
    cluster
        .kubectl(&["delete", "pod", "build", "-n", "default", "--force"])
        .await?;
    volume_is(&cluster, "Available").await?;
    let directory = "jsonpath={.items[0].spec.hostPath.path}";
    std::fs::remove_dir_all(cluster.kubectl(&["get", "pv", "-o", directory]).await?)?;
    let calls = cluster.audit().all()?.by_user_agent("volume-warden/");
    let forbidden: Vec<_> = calls.iter().filter(|call| call.code == 403).collect();
    ensure!(forbidden.is_empty() && !calls.is_empty(), "{forbidden:?}");
    cluster.stop().await;
    Ok(())
}
