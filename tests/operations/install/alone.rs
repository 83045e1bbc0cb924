//! pvc-provisioner and pv-releaser, each installed alone, in one cluster that uses the built-in
//! protection of claims and volumes.

use super::install_and_run;
use crate::support::{manifests, repository};
use anyhow::{Result, ensure};
use k8s_openapi::api::{coordination::v1::Lease, core::v1::PersistentVolume};
use kube::{Api, api::ListParams};
use serde_json::Value;
use std::collections::BTreeSet;
use volume_warden_controlplane::{Cluster, Warden, eventually};

const COMPONENTS: [&str; 2] = ["pvc-provisioner", "pv-releaser"];
/// Namespaced kinds. Both overlays may contain objects of these kinds with the same name.
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

/// A volume as a provisioner creates it.
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

/// The overlays share no object: no object without a namespace has the same kind and name in both.
#[tokio::test]
async fn the_two_share_no_object() -> Result<()> {
    let [provisioner, releaser] = [
        rendered(COMPONENTS[0]).await?,
        rendered(COMPONENTS[1]).await?,
    ];
    let is_cluster_scoped = |object: &&Value| !NAMESPACED.contains(&identity(object).0);
    let names = |objects| -> BTreeSet<_> {
        let objects: &Vec<Value> = objects;
        objects
            .iter()
            .filter(is_cluster_scoped)
            .map(identity)
            .collect()
    };
    let (provisioner, releaser) = (names(&provisioner), names(&releaser));
    let shared: Vec<_> = provisioner.intersection(&releaser).collect();
    ensure!(
        shared.is_empty() && !releaser.is_empty(),
        "in both: {shared:?}"
    );
    Ok(())
}

/// An overlay names no namespace except its own and kube-system, and contains every object that it
/// refers to.
#[tokio::test]
async fn each_is_complete_and_in_its_own_namespace() -> Result<()> {
    for component in COMPONENTS {
        let objects = rendered(component).await?;
        for (key, text) in objects.iter().flat_map(|object| strings("", object)) {
            let is_own = match key {
                "namespace" => text == component,
                "expression" => {
                    let of_request = r#""system:serviceaccount:" + request.namespace"#;
                    !text.replace(of_request, "").contains("serviceaccount")
                        || text.contains(&format!(":{component}:"))
                }
                "values" => text == "true" || text == "kube-system" || text == component,
                _ => true,
            };
            ensure!(is_own, "{component}: {key}: {text}");
        }
        let contained: BTreeSet<_> = objects.iter().map(identity).collect();
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
                contained.contains(&(kind, name)),
                "{component}: there is no {kind} {name}"
            );
        }
    }
    Ok(())
}

/// Applies the overlay of this component and runs Volume Warden as the overlay installs it.
async fn run(cluster: &Cluster, component: &str) -> Result<Warden> {
    let overlay = format!("manifests/overlays/{component}");
    install_and_run(cluster, &overlay, component).await
}

/// Checks that at least one review on this path was answered.
async fn webhook_was_called(warden: &Warden, path: &str) -> Result<()> {
    let metrics = warden.metrics().await?;
    let was_answered = |verdict: &str| {
        let reviews = "volume_warden_admission_reviews_total";
        let series = format!("{reviews}{{path=\"{path}\",verdict=\"{verdict}\"}} ");
        let counts = metrics
            .lines()
            .filter_map(|line| line.strip_prefix(&*series));
        counts.into_iter().any(|count| count != "0")
    };
    let verdicts = ["Allowed", "Warned", "Patched", "Denied"];
    ensure!(verdicts.into_iter().any(was_answered), "{path}: {metrics}");
    Ok(())
}

/// Creates the object in dry runs until the webhook with this path is called. The API server then
/// knows that webhook and its CA.
async fn wait_for_webhook(
    cluster: &Cluster,
    object: &str,
    warden: &Warden,
    path: &str,
) -> Result<()> {
    eventually(&format!("{path} is called"), async || {
        let create = ["create", "--dry-run=server", "-f", "-"];
        cluster.kubectl_with_stdin(&create, object).await?;
        webhook_was_called(warden, path).await
    })
    .await
}

async fn the_volume_has_phase(cluster: &Cluster, phase: &str) -> Result<()> {
    let volumes: Api<PersistentVolume> = Api::all(cluster.client());
    eventually(
        &format!("there is one volume, with the phase {phase}"),
        async || {
            let found = volumes.list(&ListParams::default()).await?.items;
            let phases = found.into_iter().map(|volume| volume.status?.phase);
            let phases: Vec<Option<String>> = phases.collect();
            ensure!(phases == [Some(phase.to_owned())], "{phases:?}");
            Ok(())
        },
    )
    .await
}

/// Each installation works with its own service account and Lease, and the permissions of the two
/// overlays are sufficient.
#[tokio::test]
async fn both_work_in_one_cluster() -> Result<()> {
    let cluster = Cluster::in_tree().name("alone").start().await?;
    let [provisioner, releaser] = [
        run(&cluster, COMPONENTS[0]).await?,
        run(&cluster, COMPONENTS[1]).await?,
    ];
    for component in COMPONENTS {
        let leases: Api<Lease> = Api::namespaced(cluster.client(), component);
        eventually("the component holds its own Lease", async || {
            let spec = leases.get(component).await?.spec;
            let holder = spec.and_then(|spec| spec.holder_identity);
            // A replica that releases the Lease leaves an empty holder.
            ensure!(holder.is_some_and(|holder| !holder.is_empty()), "no holder");
            Ok(())
        })
        .await?;
    }
    wait_for_webhook(&cluster, POD, &provisioner, "/pvc-provisioner/pods").await?;
    wait_for_webhook(&cluster, VOLUME, &releaser, "/pv-releaser/volumes").await?;
    cluster
        .kubectl_with_stdin(&["create", "-f", "-"], CLASS)
        .await?;
    cluster
        .kubectl_with_stdin(&["create", "-f", "-"], POD)
        .await?;
    the_volume_has_phase(&cluster, "Bound").await?;
    cluster
        .kubectl(&["delete", "pod", "build", "-n", "default", "--force"])
        .await?;
    the_volume_has_phase(&cluster, "Available").await?;
    let directory = "jsonpath={.items[0].spec.hostPath.path}";
    std::fs::remove_dir_all(cluster.kubectl(&["get", "pv", "-o", directory]).await?)?;
    let calls = cluster.audit().all()?.by_user_agent("volume-warden/");
    let forbidden: Vec<_> = calls.iter().filter(|call| call.code == 403).collect();
    ensure!(forbidden.is_empty() && !calls.is_empty(), "{forbidden:?}");
    cluster.stop().await;
    Ok(())
}
