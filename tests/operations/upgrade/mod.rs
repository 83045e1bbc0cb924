//! The upgrade from version 0.1.0, and the rollback, under load.

mod former;
pub mod newer;
mod replica;

use self::{
    former::Former,
    replica::{Running, logs_of, nothing_was_refused, one_leads, roll_out, watch_leaders},
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

/// All components of version 0.1.0 but namespace-gc, so that it names its Lease after them.
const COMPONENTS: [&str; 6] = [
    "self-signed",
    "pvc-protection",
    "pv-protection",
    "pvc-retention",
    "pvc-provisioner",
    "pv-releaser",
];
/// What the manifests of this version add.
const ADDED: [&str; 3] = ["pvc-trash", "restrict-service-account", "network-policy"];

async fn cluster() -> Result<Shared> {
    static CLUSTER: Slot = Slot::new();
    let start = async || Cluster::without_in_tree().name("versions").start().await;
    CLUSTER.get(start).await
}

/// A pod that is never scheduled and requests the claim in its only volume, of a class of volumes
/// that are released for reuse.
fn requesting(class: &str) -> Value {
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

/// Users create and delete claims and pods until `stop`. Every request succeeds. Returns their
/// number.
async fn load(space: Arc<Space>, stop: CancellationToken) -> Result<usize> {
    let mut count = 0;
    while !stop.is_cancelled() {
        let name = format!("short-{count}");
        let what = || name.clone();
        let requested = format!("requested-{count}");
        let pod = space.create_pod(&requested, &requested, requesting(&space.name));
        pod.await.with_context(what)?;
        space.create_claim(&name).await.with_context(what)?;
        let pod = space.create_pod(&name, &name, json!({"spec": {"nodeName": "node-1"}}));
        pod.await.with_context(what)?;
        space.delete_claim(&name).await.with_context(what)?;
        space.delete_pod(&name).await.with_context(what)?;
        space.delete_pod(&requested).await.with_context(what)?;
        count += 1;
    }
    Ok(count)
}

/// The upgrade and the rollback refuse no request, no two processes ever lead, a claim in use is
/// never lost, and every deleted claim is deleted in the end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "builds version 0.1.0: cargo test --test operations upgrade -- --ignored"]
async fn version_0_1_0_is_upgraded_and_comes_back_under_load() -> Result<()> {
    let former = tokio::task::spawn_blocking(Former::locate).await??;
    let cluster = cluster().await?;
    let old = Kustomization::within(&former.manifests, &COMPONENTS, NAMESPACE)?;
    let mut components = COMPONENTS.to_vec();
    components.extend(ADDED);
    let new = Kustomization::of(&components, NAMESPACE)?;
    cluster.apply_kustomization(old.path()).await?;
    let before = newer::installed(&cluster).await?;

    let running = Running::default();
    roll_out(&cluster, &running, "old", Some(&former.binary)).await?;
    one_leads(&running).await?;
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
    one_leads(&running).await?;
    space.claim_is_held("kept").await?;
    // Rollback
    let replace = async || {
        let path = old.path().to_string_lossy();
        cluster.kubectl(&["replace", "-k", &path]).await
    };
    replace().await?;
    logs.extend(roll_out(&cluster, &running, "again", Some(&former.binary)).await?);
    replace().await?;
    newer::delete(&cluster).await?;
    let after = newer::installed(&cluster).await?;
    ensure!(after == before, "{before:?}, after the rollback {after:?}");
    one_leads(&running).await?;
    space.claim_is_held("kept").await?;
    stop.cancel();
    let log = || {
        cluster
            .log(Component::Apiserver)
            .lines()
            .count()
            .to_string()
    };
    let requests = users.await?.with_context(log)?;
    // Those of the replicas that run after the rollback.
    logs.extend(logs_of(&running));
    nothing_was_refused(&logs)?;
    let (looks, led) = leaders.await??;
    println!("{requests} rounds of users; {looks} looks at the replicas, in {led} one led");
    ensure!(
        requests > 50 && looks > 50 && led > 0,
        "{requests} {looks} {led}"
    );

    space.delete_pod("user").await?;
    space.claim_is_gone("kept").await?;
    eventually("no deleted claim is left", async || {
        let left = space.claims.list(&Default::default()).await?;
        ensure!(left.items.is_empty(), "{} are left", left.items.len());
        Ok(())
    })
    .await
}
