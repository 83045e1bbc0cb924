//! The upgrade from version 0.1.0, and the rollback, under load.

mod old_version;
mod replica;
pub mod rollback;

use self::{
    old_version::OldVersion,
    replica::{
        RunningReplicas, a_replica_leads, logs_of, no_policy_refused_a_write, roll_out,
        watch_leaders,
    },
};
use crate::support::{
    Space,
    kustomization::{Kustomization, NAMESPACE},
    shared::{Shared, Slot},
};
use anyhow::{Context, Result, ensure};
use k8s_openapi::api::storage::v1::StorageClass;
use kube::Api;
use serde_json::{Value, json};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;
use volume_warden_controlplane::{Cluster, Component, eventually};

/// All components of version 0.1.0 except namespace-gc. With namespace-gc, version 0.1.0 would not
/// name its Lease after its components.
const COMPONENTS: [&str; 6] = [
    "self-signed",
    "pvc-protection",
    "pv-protection",
    "pvc-retention",
    "pvc-provisioner",
    "pv-releaser",
];
/// The components that the manifests of this version add.
const ADDED: [&str; 3] = ["pvc-trash", "restrict-service-account", "network-policy"];

async fn cluster() -> Result<Shared> {
    static CLUSTER: Slot = Slot::new();
    let start = async || Cluster::without_in_tree().name("versions").start().await;
    CLUSTER.get(start).await
}

/// Changes for a pod: it is never scheduled, and requests the claim of its only volume from
/// pvc-provisioner, with a class whose volumes are released for reuse.
fn request_for_claim(class: &str) -> Value {
    let template = json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "spec": {
            "accessModes": ["ReadWriteOnce"], "storageClassName": class,
            "resources": {"requests": {"storage": "1Mi"}},
        },
    });
    json!({
        "metadata": {"annotations": {
            "dynamic-pvc-provisioner.kubernetes.io/data.enabled": "true",
            "dynamic-pvc-provisioner.kubernetes.io/data.pvc": template.to_string(),
        }},
        "spec": {"schedulerName": "absent"},
    })
}

/// Creates and deletes claims and pods as users do, until `stop`. Every request has to succeed.
/// Returns the number of rounds.
async fn load(space: Arc<Space>, stop: CancellationToken) -> Result<usize> {
    let mut count = 0;
    while !stop.is_cancelled() {
        let name = format!("short-{count}");
        let context = || name.clone();
        let requested = format!("requested-{count}");
        let pod = space.create_pod(&requested, &requested, request_for_claim(&space.name));
        pod.await.with_context(context)?;
        space.create_claim(&name).await.with_context(context)?;
        let pod = space.create_pod(&name, &name, json!({"spec": {"nodeName": "node-1"}}));
        pod.await.with_context(context)?;
        space.delete_claim(&name).await.with_context(context)?;
        space.delete_pod(&name).await.with_context(context)?;
        space.delete_pod(&requested).await.with_context(context)?;
        count += 1;
    }
    Ok(count)
}

/// During the upgrade and the rollback, no request is refused, no two replicas lead at the same
/// time, and a claim in use is kept. In the end, no deleted claim is left.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "builds version 0.1.0: cargo test --test operations upgrade -- --ignored"]
async fn version_0_1_0_is_upgraded_and_rolled_back_under_load() -> Result<()> {
    let old_version = tokio::task::spawn_blocking(OldVersion::locate).await??;
    let cluster = cluster().await?;
    let old = Kustomization::within(&old_version.manifests, &COMPONENTS, NAMESPACE)?;
    let mut components = COMPONENTS.to_vec();
    components.extend(ADDED);
    let new = Kustomization::of(&components, NAMESPACE)?;
    cluster.apply_kustomization(old.path()).await?;
    let before = rollback::installed_objects(&cluster).await?;

    let running = RunningReplicas::default();
    roll_out(&cluster, &running, "old", Some(&old_version.binary)).await?;
    a_replica_leads(&running).await?;
    let space = Arc::new(Space::new(cluster.clone(), "load").await?);
    let class = json!({
        "metadata": {"name": space.name}, "provisioner": "kubernetes.io/host-path",
        "reclaimPolicy": "Retain", "volumeBindingMode": "Immediate",
    });
    let class: StorageClass = serde_json::from_value(class)?;
    let classes: Api<StorageClass> = Api::all(cluster.client());
    classes.create(&Default::default(), &class).await?;
    space.create_claim("kept").await?;
    space.claim_is_protected("kept").await?;
    space.create_running_pod("user", "kept").await?;
    space.delete_claim("kept").await?;

    let stop = CancellationToken::new();
    let leaders = tokio::spawn(watch_leaders(running.clone(), stop.clone()));
    let users = tokio::spawn(load(space.clone(), stop.clone()));
    // Upgrade
    cluster.apply_kustomization(new.path()).await?;
    let mut logs = roll_out(&cluster, &running, "new", None).await?;
    a_replica_leads(&running).await?;
    space.claim_is_held("kept").await?;
    // Rollback
    let replace = async || {
        let path = old.path().to_string_lossy();
        cluster.kubectl(&["replace", "-k", &path]).await
    };
    replace().await?;
    logs.extend(roll_out(&cluster, &running, "again", Some(&old_version.binary)).await?);
    replace().await?;
    rollback::delete_newer_objects(&cluster).await?;
    let after = rollback::installed_objects(&cluster).await?;
    ensure!(after == before, "{before:?}, after the rollback {after:?}");
    a_replica_leads(&running).await?;
    space.claim_is_held("kept").await?;
    stop.cancel();
    let log = || {
        cluster
            .log(Component::Apiserver)
            .lines()
            .count()
            .to_string()
    };
    let rounds = users.await?.with_context(log)?;
    // The logs of the replicas that run after the rollback.
    logs.extend(logs_of(&running));
    no_policy_refused_a_write(&logs)?;
    let (checks, led) = leaders.await??;
    println!("{rounds} rounds of users; {checks} checks of the replicas, {led} times one led");
    ensure!(
        rounds > 50 && checks > 50 && led > 0,
        "{rounds} {checks} {led}"
    );

    space.delete_pod("user").await?;
    space.claim_is_gone("kept").await?;
    eventually("no deleted claim is left", async || {
        let left = space.claims.list(&Default::default()).await?;
        ensure!(
            left.items.is_empty(),
            "{} claims are left",
            left.items.len()
        );
        Ok(())
    })
    .await
}
