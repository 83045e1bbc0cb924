//! A pod with an invalid template, and another pod that requests the same claim.

use super::{
    fault_fixture::FaultFixture,
    support::{PodSpace, TEMPLATE, annotations, is_bound, is_owned_by, requesting_pod},
};
use crate::support::guarded;
use anyhow::{Result, anyhow, ensure};
use k8s_openapi::api::{apps::v1::Deployment, core::v1::Pod};
use kube::{
    Api, ResourceExt,
    api::{ListParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};
use volume_warden_controlplane::eventually;

const INVALID_TEMPLATE: &str = "spec: [";

fn template(text: &str) -> Value {
    annotations(&[("data.pvc", Some(text))])
}

/// The pod with the invalid template gets an Event and no claim. The claim is created for the other
/// pod.
#[tokio::test]
async fn a_pod_with_an_invalid_template_does_not_block_others() -> Result<()> {
    let fixture = FaultFixture::new("broken-first").await?;
    let pod_space = &fixture.pod_space;
    let _warden = fixture.start().await?;
    pod_space
        .request_claim("broken", "data", template(INVALID_TEMPLATE))
        .await?;
    pod_space
        .has_event("broken", "ErrInvalidPVC", "line 1")
        .await?;
    let pod = pod_space.request_claim("pod", "data", json!({})).await?;
    pod_space.belongs("data", &pod).await?;
    pod_space.has_event("pod", "PVCProvisioned", "data").await?;
    Ok(())
}

/// A Deployment with one replica.
struct Workload {
    pod_space: PodSpace,
    deployments: Api<Deployment>,
}

impl Workload {
    async fn new(label: &str, text: &str) -> Result<Self> {
        let pod_space = PodSpace::new(guarded().await?, label).await?;
        let label = json!({"app": "web"});
        let mut changes = template(text);
        changes["metadata"]["labels"] = label.clone();
        changes["spec"] = json!({"schedulerName": null});
        let rollout = json!({"maxSurge": 1, "maxUnavailable": 0});
        let deployment: Deployment = serde_json::from_value(json!({
            "metadata": {"name": "web"},
            "spec": {
                "replicas": 1, "selector": {"matchLabels": label}, "strategy": {"rollingUpdate": rollout},
                "template": requesting_pod("", "data", changes)?,
            },
        }))?;
        let space = &pod_space.space;
        let deployments = Api::namespaced(space.cluster.client(), &space.name);
        let parameters = PostParams::default();
        deployments.create(&parameters, &deployment).await?;
        Ok(Self {
            pod_space,
            deployments,
        })
    }

    /// Changes the claim template of the Deployment, which starts a rollout.
    async fn change_template(&self, text: &str) -> Result<()> {
        let patch = Patch::Merge(json!({"spec": {"template": template(text)}}));
        let parameters = PatchParams::default();
        self.deployments.patch("web", &parameters, &patch).await?;
        Ok(())
    }

    /// Waits until there is exactly one pod, and it is not `old`.
    async fn only_pod(&self, old: Option<&Pod>) -> Result<Pod> {
        eventually("there is exactly one pod, the new one", async || {
            let pods = self
                .pod_space
                .space
                .pods
                .list(&ListParams::default())
                .await?;
            let [pod] = <[Pod; 1]>::try_from(pods.items).map_err(|pods| {
                anyhow!(
                    "{:?}",
                    pods.iter().map(|pod| &pod.status).collect::<Vec<_>>()
                )
            })?;
            ensure!(pod.uid() != old.and_then(ResourceExt::uid), "the old pod");
            anyhow::Ok(Some(pod))
        })
        .await
    }
}

/// The template of a Deployment is corrected. The old pod uses the claim as well, as soon as the
/// claim exists, and is deleted once the new pod is ready; the new pod keeps the claim.
#[tokio::test]
async fn a_corrected_deployment_keeps_its_claim() -> Result<()> {
    let workload = Workload::new("mended", INVALID_TEMPLATE).await?;
    let pod_space = &workload.pod_space;
    let old = workload.only_pod(None).await?;
    pod_space
        .has_event(&old.name_any(), "ErrInvalidPVC", "line 1")
        .await?;
    workload
        .change_template(&TEMPLATE.replace("absent", "standard"))
        .await?;
    let new = workload.only_pod(Some(&old)).await?;
    let claim = pod_space.belongs("data", &new).await?;
    pod_space.wait_until_processed().await?;
    let now = pod_space.claim("data").await?;
    assert_eq!(now.uid(), claim.uid());
    ensure!(
        now.metadata.deletion_timestamp.is_none() && is_bound(&now),
        "{now:?}"
    );
    is_owned_by(&now, &new)
}
