//! Certificates that live for seconds, in the real program, with two replicas and the API server
//! as their client.

use super::{Trust, visitor::Visitor};
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
const PACE: Duration = Duration::from_millis(100);
/// The number of reviews after which the certificates are looked at again: handshakes take more of
/// the processor than a review, and a certificate lives for many of these intervals.
const BETWEEN_LOOKS: usize = 5;

/// Creates a claim by dry run, and checks its finalizer; without it, the API server skipped the
/// webhook.
async fn claim_is_reviewed(claims: &Api<PersistentVolumeClaim>) -> Result<()> {
    claims
        .create(&dry_run(), &claim("probe", json!({}))?)
        .await?;
    Ok(())
}

/// Calls that failed open because of a certificate, from the API server's log after this offset in
/// bytes.
fn refused(cluster: &Cluster, since: usize) -> Vec<String> {
    let log = cluster.log(Component::Apiserver);
    let lines = log.get(since..).unwrap_or_default().lines();
    let failed = lines.filter(|line| line.contains("failing open"));
    let refused = failed.filter(|line| line.contains("x509") || line.contains("tls:"));
    refused.map(str::to_owned).collect()
}

/// Two new CAs and their certificates are issued during the test.
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
    let (trust, since) = (Trust::of(&cluster), cluster.log(Component::Apiserver).len());
    let claims: Api<PersistentVolumeClaim> = Api::namespaced(cluster.client(), "default");
    let visitor = Visitor::new(cluster.client());
    let (mut authorities, mut leaves) = (BTreeSet::new(), BTreeSet::new());
    let mut pace = interval(PACE);
    while authorities.len() < 3 {
        for _ in 0..BETWEEN_LOOKS {
            pace.tick().await;
            claim_is_reviewed(&claims).await?;
        }
        authorities.extend(trust.secret("ca.crt").await?);
        for warden in [&first, &second] {
            let served = visitor.served(warden.webhook_port()).await;
            leaves.insert(served.context(format!("after {} CAs", authorities.len()))?);
            ensure!(warden.ready().await, "a replica was not ready");
        }
    }
    let refused = refused(&cluster, since);
    ensure!(refused.is_empty(), "{refused:?}");
    ensure!(leaves.len() >= 4, "{} leaves", leaves.len());
    Ok(())
}
