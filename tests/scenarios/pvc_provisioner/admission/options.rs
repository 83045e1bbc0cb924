//! Command line options.

use super::{
    outage_fixture::OutageFixture,
    posted::{asked, post},
};
use crate::{
    pvc_provisioner::support::{annotations, asking},
    support::Space,
};
use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::Pod;
use kube::{ResourceExt, api::PostParams};
use serde_json::json;
use volume_warden_controlplane::eventually;

/// `--namespace`: in other namespaces Volume Warden creates and publishes nothing.
#[tokio::test]
async fn other_namespaces_are_ignored() -> Result<()> {
    let own = |namespace: &str| vec![format!("--namespace={namespace}")];
    let fixture = OutageFixture::in_own_space("one-namespace", own).await?;
    let askers = &fixture.askers;
    let pod = eventually("a claim exists with its pod", async || {
        let pod: Pod = asked(askers, json!({}), "").await?.object()?;
        askers.claim(&pod.name_any()).await?;
        anyhow::Ok(Some(pod))
    })
    .await?;
    askers.belongs(&pod.name_any(), &pod).await?;

    let elsewhere = Space::new(askers.space.cluster.clone(), "other-namespace").await?;
    let broken = asking("broken", "data", annotations(&[("data.pvc", Some("}"))]))?;
    let posted = post(&elsewhere, &broken, "").await?;
    ensure!(
        posted.code == 201 && posted.warnings.is_empty(),
        "{posted:?}"
    );
    let parameters = PostParams::default();
    let pod = asking("pod", "data", json!({}))?;
    elsewhere.pods.create(&parameters, &pod).await?;
    askers.settled().await?;
    ensure!(elsewhere.claims.get_opt("data").await?.is_none());
    Ok(())
}

/// `--dry-run` of Volume Warden itself: reports what would be created.
#[tokio::test]
async fn a_dry_run_of_volume_warden_reports_what_it_would_create() -> Result<()> {
    let fixture = OutageFixture::in_own_space("withheld", |_| vec!["--dry-run".to_owned()]).await?;
    let askers = &fixture.askers;
    eventually("the dry run is reported", async || {
        let posted = asked(askers, json!({}), "").await?;
        let name = posted.object::<Pod>()?.name_any();
        let said = posted.says(&format!("(dry run) would create the claim \"{name}\""));
        ensure!(said, "{posted:?}");
        Ok(())
    })
    .await?;
    ensure!(askers.claims().await?.is_empty());
    Ok(())
}
