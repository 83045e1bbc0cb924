//! Certificates with a lifetime of seconds. Two replicas of the real program run, and the API
//! server is their client.

use super::{CertificateObjects, strict_client::StrictClient};
use crate::{
    fresh,
    support::{BINARY, claim, dry_run, webhooks_answer},
};
use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::Api;
use serde_json::json;
use std::{collections::BTreeSet, time::Duration};
use tokio::time::interval;
use volume_warden_controlplane::{Cluster, Component, Warden};

/// The interval between two reviews.
const REVIEW_INTERVAL: Duration = Duration::from_millis(100);
/// The number of reviews between two checks of the served certificates: the handshakes of a check
/// take more CPU time than a review, and the lifetime of a certificate spans many of these checks.
const REVIEWS_PER_CHECK: usize = 5;

/// Creates a claim by dry run. [`certificate_failures`] finds reviews that failed because of a
/// certificate.
async fn create_probe(claims: &Api<PersistentVolumeClaim>) -> Result<()> {
    claims
        .create(&dry_run(), &claim("probe", json!({}))?)
        .await?;
    Ok(())
}

/// The lines of the API server's log about reviews that failed open because of a certificate, after
/// this offset in bytes.
fn certificate_failures(cluster: &Cluster, offset: usize) -> Vec<String> {
    let log = cluster.log(Component::Apiserver);
    let lines = log.get(offset..).unwrap_or_default().lines();
    let failed = lines.filter(|line| line.contains("failing open"));
    let by_certificate = failed.filter(|line| line.contains("x509") || line.contains("tls:"));
    by_certificate.map(str::to_owned).collect()
}

/// No review fails open because of a certificate while two new CAs and their certificates are
/// issued.
#[tokio::test]
async fn no_review_is_refused_while_certificates_rotate() -> Result<()> {
    let cluster = fresh::installed().await?;
    let start = |name: &'static str| {
        Warden::builder(&cluster, BINARY)
            .name(name)
            .arg("--tls-ca-lifetime=100s")
            .arg("--tls-certificate-lifetime=40s")
            .serving()
            .start()
    };
    let (first, second) = tokio::try_join!(start("first"), start("second"))?;
    webhooks_answer(&cluster.client()).await?;
    let objects = CertificateObjects::of(&cluster);
    let offset = cluster.log(Component::Apiserver).len();
    let claims: Api<PersistentVolumeClaim> = Api::namespaced(cluster.client(), "default");
    let strict_client = StrictClient::new(cluster.client());
    let (mut authorities, mut leaves) = (BTreeSet::new(), BTreeSet::new());
    let mut ticks = interval(REVIEW_INTERVAL);
    while authorities.len() < 3 {
        for _ in 0..REVIEWS_PER_CHECK {
            ticks.tick().await;
            create_probe(&claims).await?;
        }
        authorities.extend(objects.secret("ca.crt").await?);
        for warden in [&first, &second] {
            let served = strict_client
                .served_certificate(warden.webhook_port())
                .await;
            leaves.insert(served.context(format!("after {} CAs", authorities.len()))?);
            ensure!(warden.ready().await?, "a replica was not ready");
        }
    }
    let failures = certificate_failures(&cluster, offset);
    ensure!(failures.is_empty(), "{failures:?}");
    ensure!(leaves.len() >= 4, "only {} certificates", leaves.len());
    Ok(())
}
