//! Volume Warden does not write to a claim that was created at admission before the claim is bound:
//! a write would make the provisioner or kube-controller-manager fail with a conflict, and retry
//! much later.

use super::{
    admission::posted::failed_open_counts,
    support::{AWAITING_POD, PodSpace, TEMPLATE, annotations, is_bound},
};
use crate::support::guarded;
use anyhow::{Context, Result, ensure};
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::{
    core::v1::{PersistentVolumeClaim, Pod},
    storage::v1::StorageClass,
};
use kube::{
    Api, ResourceExt,
    api::{ListParams, PostParams, WatchEvent, WatchParams},
};
use serde_json::json;
use std::collections::HashSet;
use volume_warden_controlplane::eventually;

/// The number of pods in each test.
const PODS: usize = 30;
/// The annotation by which kube-controller-manager requests a volume from the provisioner.
const PROVISIONER: &str = "volume.kubernetes.io/storage-provisioner";

/// A namespace, and a StorageClass of its own with the binding mode WaitForFirstConsumer.
struct Consumers {
    pod_space: PodSpace,
}

impl Consumers {
    async fn new(label: &str, provisioner: &str) -> Result<Self> {
        let pod_space = PodSpace::new(guarded().await?, label).await?;
        let class: StorageClass = serde_json::from_value(json!({
            "metadata": {"name": pod_space.space.name}, "provisioner": provisioner,
            "volumeBindingMode": "WaitForFirstConsumer",
        }))?;
        let classes: Api<StorageClass> = Api::all(pod_space.space.cluster.client());
        classes.create(&PostParams::default(), &class).await?;
        Ok(Self { pod_space })
    }

    /// Creates [`PODS`] pods that the scheduler schedules. Each pod requests a claim with the name
    /// of the pod.
    async fn create_pods(&self) -> Result<Vec<Pod>> {
        let template = TEMPLATE.replace("absent", &self.pod_space.space.name);
        let mut changes = annotations(&[("data.pvc", Some(&template))]);
        changes["spec"] = json!({"schedulerName": null});
        let pods = stream::iter(0..PODS).map(async |number| {
            let name = format!("pod{number}");
            self.pod_space
                .request_claim(&name, &name, changes.clone())
                .await
        });
        pods.buffer_unordered(10).try_collect().await
    }

    async fn claims(&self) -> Result<Vec<PersistentVolumeClaim>> {
        let claims = &self.pod_space.space.claims;
        Ok(claims.list(&ListParams::default()).await?.items)
    }
}

fn is_marked(claim: &PersistentVolumeClaim) -> bool {
    claim.annotations().contains_key(AWAITING_POD)
}

/// kube-controller-manager requests a volume for each claim without a failure, and Volume Warden
/// writes to no claim meanwhile. The provisioner does not exist, so the claims stay pending.
#[tokio::test]
async fn volume_warden_delays_no_provisioner() -> Result<()> {
    let consumers = Consumers::new("delayed", "example.com/none").await?;
    let (pod_space, space) = (&consumers.pod_space, &consumers.pod_space.space);
    let failed_open_before = failed_open_counts(&space.cluster).await?;
    let pods = consumers.create_pods().await?;
    for pod in &pods {
        pod_space
            .has_event(&pod.name_any(), "PVCProvisioned", "created")
            .await?;
    }
    eventually("a volume is requested for every claim", async || {
        let claims = consumers.claims().await?;
        let is_requested =
            |claim: &&PersistentVolumeClaim| claim.annotations().contains_key(PROVISIONER);
        ensure!(claims.iter().filter(is_requested).count() == PODS);
        anyhow::Ok(())
    })
    .await?;
    let failed = space.events_with("ProvisioningFailed").await?;
    ensure!(failed.is_empty(), "{}: {failed:?}", failed.len());
    let calls = space.cluster.audit().all()?.by_user_agent("volume-warden/");
    let writes = calls.writes();
    let mut writes = writes.iter().filter(|call| {
        call.resource == "persistentvolumeclaims"
            && call.namespace == space.name
            && call.verb != "create"
    });
    ensure!(writes.next().is_none());
    let claims = consumers.claims().await?;
    let marked = claims.iter().filter(|claim| is_marked(claim)).count();
    let all_reviewed = failed_open_counts(&space.cluster).await? == failed_open_before;
    ensure!(
        marked == PODS || !all_reviewed,
        "{marked} claims created at admission"
    );
    Ok(())
}

/// A claim that was created at admission gets its owner only once it is bound, which every version
/// of every claim shows. All pods get their claims, and each claim is deleted with its pod.
#[tokio::test]
async fn a_claim_gets_its_owner_once_it_is_bound() -> Result<()> {
    let consumers = Consumers::new("bound", "kubernetes.io/host-path").await?;
    let (pod_space, space) = (&consumers.pod_space, &consumers.pod_space.space);
    let claims = space.claims.list_metadata(&ListParams::default()).await?;
    let version = claims
        .metadata
        .resource_version
        .context("the list has no resourceVersion")?;
    let parameters = WatchParams::default().timeout(290);
    let failed_open_before = failed_open_counts(&space.cluster).await?;
    let mut changes = space.claims.watch(&parameters, &version).await?.boxed();
    let pods = consumers.create_pods().await?;
    let (mut marked, mut owned) = (HashSet::new(), HashSet::new());
    while owned.len() < PODS {
        let event = changes.try_next().await?.context("the watch ended")?;
        let (WatchEvent::Added(claim) | WatchEvent::Modified(claim)) = event else {
            continue;
        };
        let (name, owners) = (claim.name_any(), claim.owner_references().len());
        if is_marked(&claim) {
            ensure!(owners == 0, "{:?}", claim.metadata);
            marked.insert(name);
        } else {
            ensure!(owners == 1, "{:?}", claim.metadata);
            ensure!(is_bound(&claim) || !marked.contains(&name), "{claim:?}");
            owned.insert(name);
        }
    }
    // The reconciler creates the claims of pods that the webhook did not review, with an owner.
    let all_reviewed = failed_open_counts(&space.cluster).await? == failed_open_before;
    ensure!(marked.len() == PODS || !all_reviewed, "{}", marked.len());
    for pod in &pods {
        let name = pod.name_any();
        pod_space.belongs(&name, pod).await?;
        pod_space
            .has_event(&name, "PVCProvisioned", "created")
            .await?;
        space.delete_pod(&name).await?;
    }
    for pod in &pods {
        space.claim_is_gone(&pod.name_any()).await?;
    }
    Ok(())
}
