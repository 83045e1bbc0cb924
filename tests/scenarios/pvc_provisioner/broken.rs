//! A pod with an invalid template, and another one that requests the same claim.

use super::{
    fault_fixture::FaultFixture,
    support::{Askers, TEMPLATE, annotations, asking, is_bound, is_given},
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

const BROKEN: &str = "spec: [";

fn template(text: &str) -> Value {
    annotations(&[("data.pvc", Some(text))])
}

/// The first pod gets no claim, and the second one does not wait for it.
#[tokio::test]
async fn a_pod_with_an_invalid_template_does_not_block_others() -> Result<()> {
    let fixture = FaultFixture::new("broken-first").await?;
    let askers = &fixture.askers;
    let _warden = fixture.start().await?;
    askers.ask("broken", "data", template(BROKEN)).await?;
    askers
        .has_event("broken", "ErrInvalidPVC", "line 1")
        .await?;
    let pod = askers.ask("pod", "data", json!({})).await?;
    askers.belongs("data", &pod).await?;
    askers.has_event("pod", "PVCProvisioned", "data").await?;
    Ok(())
}

/// A Deployment of one pod.
struct Workload {
    askers: Askers,
    deployments: Api<Deployment>,
}

impl Workload {
    async fn new(label: &str, text: &str) -> Result<Self> {
        let askers = Askers::new(guarded().await?, label).await?;
        let label = json!({"app": "web"});
        let mut changes = template(text);
        changes["metadata"]["labels"] = label.clone();
        changes["spec"] = json!({"schedulerName": null});
        let rollout = json!({"maxSurge": 1, "maxUnavailable": 0});
        let deployment: Deployment = serde_json::from_value(json!({
            "metadata": {"name": "web"},
            "spec": {
                "replicas": 1, "selector": {"matchLabels": label}, "strategy": {"rollingUpdate": rollout},
                "template": asking("", "data", changes)?,
            },
        }))?;
        let space = &askers.space;
        let deployments = Api::namespaced(space.cluster.client(), &space.name);
        let parameters = PostParams::default();
        deployments.create(&parameters, &deployment).await?;
        Ok(Self {
            askers,
            deployments,
        })
    }

    async fn mend(&self, text: &str) -> Result<()> {
        let patch = Patch::Merge(json!({"spec": {"template": template(text)}}));
        let parameters = PatchParams::default();
        self.deployments.patch("web", &parameters, &patch).await?;
        Ok(())
    }

    /// The one pod, other than this.
    async fn only_pod(&self, other: Option<&Pod>) -> Result<Pod> {
        eventually("there is one pod, the wanted one", async || {
            let pods = self.askers.space.pods.list(&ListParams::default()).await?;
            let [pod] = <[Pod; 1]>::try_from(pods.items).map_err(|pods| {
                anyhow!(
                    "{:?}",
                    pods.iter().map(|pod| &pod.status).collect::<Vec<_>>()
                )
            })?;
            ensure!(pod.uid() != other.and_then(ResourceExt::uid), "the old one");
            anyhow::Ok(Some(pod))
        })
        .await
    }
}

/// The old pod uses the claim as well, as soon as there is one, and is deleted once the new one is
/// ready.
#[tokio::test]
async fn a_mended_deployment_keeps_its_claim() -> Result<()> {
    let workload = Workload::new("mended", BROKEN).await?;
    let askers = &workload.askers;
    let old = workload.only_pod(None).await?;
    askers
        .has_event(&old.name_any(), "ErrInvalidPVC", "line 1")
        .await?;
    workload
        .mend(&TEMPLATE.replace("absent", "standard"))
        .await?;
    let new = workload.only_pod(Some(&old)).await?;
    let claim = askers.belongs("data", &new).await?;
    askers.settled().await?;
    let now = askers.claim("data").await?;
    assert_eq!(now.uid(), claim.uid());
    ensure!(
        now.metadata.deletion_timestamp.is_none() && is_bound(&now),
        "{now:?}"
    );
    is_given(&now, &new)
}
