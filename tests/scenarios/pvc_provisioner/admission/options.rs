//! What may be chosen.

use super::{
    posted::{asked, post},
    ward::Ward,
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

/// `--namespace`: elsewhere it neither makes nor says anything.
#[tokio::test]
async fn other_namespaces_are_left_alone() -> Result<()> {
    let own = |namespace: &str| vec![format!("--namespace={namespace}")];
    let ward = Ward::in_own_space("one-namespace", own).await?;
    let askers = &ward.askers;
    let pod = eventually("a claim is there with its pod", async || {
        let pod: Pod = asked(askers, json!({}), "").await?.object()?;
        askers.claim(&pod.name_any()).await?;
        anyhow::Ok(Some(pod))
    })
    .await?;
    askers.belongs(&pod.name_any(), &pod).await?;

    let elsewhere = Space::new(askers.space.cluster, "other-namespace").await?;
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

/// A dry run of Volume Warden itself: it says what it would make.
#[tokio::test]
async fn a_dry_run_of_volume_warden_says_what_it_would_make() -> Result<()> {
    let ward = Ward::in_own_space("withheld", |_| vec!["--dry-run".to_owned()]).await?;
    let askers = &ward.askers;
    eventually("it says so", async || {
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
