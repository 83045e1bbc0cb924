//! Command line options of Volume Warden.

use super::{
    outage_fixture::OutageFixture,
    posted::{post, post_requesting_pod},
};
use crate::{
    pvc_provisioner::support::{annotations, requesting_pod},
    support::Space,
};
use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::Pod;
use kube::{ResourceExt, api::PostParams};
use serde_json::json;
use volume_warden_controlplane::eventually;

/// `--namespace`: Volume Warden creates no claims for pods in other namespaces, and the webhook
/// returns no warnings there.
#[tokio::test]
async fn other_namespaces_are_ignored() -> Result<()> {
    let arguments = |namespace: &str| vec![format!("--namespace={namespace}")];
    let fixture = OutageFixture::new_without_waiting("one-namespace", arguments).await?;
    let pod_space = &fixture.pod_space;
    let pod = eventually("the claim exists as soon as its pod", async || {
        let pod: Pod = post_requesting_pod(pod_space, json!({}), "")
            .await?
            .object()?;
        pod_space.claim(&pod.name_any()).await?;
        anyhow::Ok(Some(pod))
    })
    .await?;
    pod_space.belongs(&pod.name_any(), &pod).await?;

    let elsewhere = Space::new(pod_space.space.cluster.clone(), "other-namespace").await?;
    let broken = requesting_pod("broken", "data", annotations(&[("data.pvc", Some("}"))]))?;
    let response = post(&elsewhere, &broken, "").await?;
    ensure!(
        response.code == 201 && response.warnings.is_empty(),
        "{response:?}"
    );
    let parameters = PostParams::default();
    let pod = requesting_pod("pod", "data", json!({}))?;
    elsewhere.pods.create(&parameters, &pod).await?;
    pod_space.wait_until_processed().await?;
    ensure!(elsewhere.claims.get_opt("data").await?.is_none());
    Ok(())
}

/// `--dry-run` of Volume Warden itself: a warning names the claim that would be created, and no
/// claim is created.
#[tokio::test]
async fn a_dry_run_of_volume_warden_reports_what_it_would_create() -> Result<()> {
    let fixture =
        OutageFixture::new_without_waiting("withheld", |_| vec!["--dry-run".to_owned()]).await?;
    let pod_space = &fixture.pod_space;
    let name = eventually("a warning reports the dry run", async || {
        let response = post_requesting_pod(pod_space, json!({}), "").await?;
        let name = response.object::<Pod>()?.name_any();
        let reported =
            response.has_warning(&format!("(dry run) would create the claim \"{name}\""));
        ensure!(reported, "{response:?}");
        anyhow::Ok(Some(name))
    })
    .await?;
    // The review of the pod logs the same action, but not as a part of the reconcile of a claim.
    let reconcile = format!("object=claim {}/{name}}}", pod_space.space.name);
    eventually("the reconciler would create the claim", async || {
        let log = fixture.warden.process().log();
        let mut lines = log.lines();
        lines.any(|line| line.contains(&reconcile) && line.contains("would act"))
    })
    .await?;
    ensure!(pod_space.claim_names().await?.is_empty());
    let codes = pod_space.creation_codes()?;
    ensure!(codes.is_empty(), "{codes:?}");
    Ok(())
}
