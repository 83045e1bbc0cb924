//! What users hear of a certificate that no client renews.

use super::{PATIENCE, publish, visitor::Visitor};
use crate::support::{BINARY, installed};
use anyhow::{Result, ensure};
use k8s_openapi::api::{coordination::v1::Lease, core::v1::Event};
use kube::{Api, api::ListParams};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use std::{fs, path::Path};
use time::{Duration, OffsetDateTime};
use volume_warden::clock::Clock;
use volume_warden_controlplane::{Cluster, Interposer, Rule, Warden, eventually_within};

/// What was reported, by its notes, and about what, by its uid.
async fn reported(cluster: &Cluster) -> Result<Vec<(String, Option<String>)>> {
    let events: Api<Event> = Api::namespaced(cluster.client(), "volume-warden");
    let with_reason = ListParams::default().fields("reason=CertificateNotRenewed");
    let events = events.list(&with_reason).await?.items.into_iter();
    Ok(events
        .map(|event| (event.message.unwrap_or_default(), event.involved_object.uid))
        .collect())
}

/// A certificate of 100 days of which so many are left.
fn old_certificate(
    authority: &CertifiedIssuer<'static, KeyPair>,
    left: i64,
    directory: &Path,
) -> Result<()> {
    let names = vec!["volume-warden.volume-warden.svc".to_owned()];
    let (mut parameters, key) = (CertificateParams::new(names)?, KeyPair::generate()?);
    let now = OffsetDateTime::now_utc();
    parameters.not_before = now - Duration::days(100 - left);
    parameters.not_after = now + Duration::days(left) + Duration::HOUR;
    let certificate = parameters.signed_by(&key, authority)?;
    // The pair does not fit for a moment, as on a disk that is written to by hand.
    fs::write(directory.join("tls.key"), key.serialize_pem())?;
    fs::write(directory.join("tls.crt"), certificate.pem())?;
    Ok(())
}

/// To the two configurations of pv-protection.
async fn publish_to_both(cluster: &Cluster, bundle: &str) -> Result<()> {
    for (kind, name) in [
        (
            "mutatingwebhookconfiguration",
            "volume-warden-pv-protection",
        ),
        (
            "validatingwebhookconfiguration",
            "volume-warden-pv-protection-guard",
        ),
    ] {
        let found = cluster.kubectl(&["get", kind, name, "-o", "json"]).await?;
        let found = serde_json::from_str(&found)?;
        publish(cluster, kind, &found, bundle).await?;
    }
    Ok(())
}

/// Mounted files: one word for each threshold of each certificate, on the Lease.
#[tokio::test]
async fn a_mounted_certificate_near_its_end_is_reported_of_once() -> Result<()> {
    let cluster = installed("expiry", "manifests").await?;
    let mut parameters = CertificateParams::new(vec![])?;
    parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(parameters, KeyPair::generate()?)?;
    publish_to_both(&cluster, &authority.pem()).await?;
    let directory = tempfile::tempdir()?;
    old_certificate(&authority, 12, directory.path())?;
    let file = |name: &str| directory.path().join(name).display().to_string();
    let warden = Warden::builder(&cluster, BINARY)
        .arg("--components=pv-protection")
        .arg(format!("--tls-cert-file={}", file("tls.crt")))
        .arg(format!("--tls-private-key-file={}", file("tls.key")))
        .start()
        .await?;
    // The same threshold again for another certificate; then one that is young.
    for (left, expected) in [(12, 1), (5, 2), (4, 3), (90, 3)] {
        if left != 12 {
            old_certificate(&authority, left, directory.path())?;
        }
        eventually_within(PATIENCE, "that is reported, and nothing besides", async || {
            let metrics = warden.metrics().await?;
            let served =
                "volume_warden_certificate_expiration_timestamp_seconds{certificate=\"Served\"} ";
            let seconds = metrics.lines().find_map(|line| line.strip_prefix(served));
            let expires: i64 = seconds.unwrap_or("0").parse()?;
            let seconds = expires - time::OffsetDateTime::now_utc().unix_timestamp();
            ensure!(seconds / 86_400 == left, "{seconds} s are left");
            let reported = reported(&cluster).await?;
            ensure!(reported.len() == expected, "{reported:?}");
            Ok(())
        })
        .await?;
    }
    // Each look at it is one more occasion to say it again: there are many while it is not trusted.
    let foreign = rcgen::generate_simple_self_signed(["foreign".to_owned()])?;
    old_certificate(&authority, 3, directory.path())?;
    publish_to_both(&cluster, &foreign.cert.pem()).await?;
    eventually_within(
        PATIENCE,
        "that is reported, and it is not ready",
        async || {
            ensure!(reported(&cluster).await?.len() == 4 && !warden.ready().await);
            anyhow::Ok(())
        },
    )
    .await?;
    publish_to_both(&cluster, &authority.pem()).await?;
    eventually_within(PATIENCE, "it is ready", async || {
        anyhow::Ok(warden.ready().await)
    })
    .await?;
    let reported_in_the_end = reported(&cluster).await?;
    assert_eq!(reported_in_the_end.len(), 4, "{reported_in_the_end:?}");
    let leases: Api<Lease> = Api::namespaced(cluster.client(), "volume-warden");
    let lease = leases.get("pv-protection").await?.metadata.uid;
    for (note, about) in reported(&cluster).await? {
        ensure!(about == lease, "about {about:?}");
        for words in ["the certificate of the webhooks expires", &file("tls.crt")] {
            ensure!(note.contains(words), "{note}");
        }
    }
    drop(warden);
    cluster.stop().await;
    Ok(())
}

/// The Secret cannot be written: it is reported before the certificate expires, and readiness ends with it. Then all is well again.
#[tokio::test]
async fn a_renewal_that_fails_is_reported_and_repaired() -> Result<()> {
    let cluster = installed("failing-renewal", "manifests").await?;
    let account = cluster
        .service_account_kubeconfig("volume-warden", "volume-warden", None)
        .await?;
    let between = Interposer::start(&cluster, account)?;
    let warden = Warden::builder(&cluster, BINARY)
        .kubeconfig(between.kubeconfig())
        .arg("--tls-ca-lifetime=90s")
        .arg("--tls-certificate-lifetime=30s")
        .start()
        .await?;
    let refused = between.add(Rule::on("PUT").path_contains("/secrets/").respond(
        403,
        "Forbidden",
        "not today",
    ));
    eventually_within(PATIENCE, "it is reported", async || {
        let reported = reported(&cluster).await?;
        let source = "the Secret volume-warden/volume-warden-tls";
        ensure!(
            reported.iter().any(|(note, _)| note.contains(source)),
            "{reported:?}"
        );
        Ok(())
    })
    .await?;
    eventually_within(PATIENCE, "it has expired, so it is not ready", async || {
        anyhow::Ok(!warden.ready().await)
    })
    .await?;
    drop(refused);
    let visitor = Visitor {
        client: cluster.client(),
        clock: Clock::system(),
    };
    eventually_within(PATIENCE, "it is renewed, ready and trusted", async || {
        ensure!(warden.ready().await, "not ready");
        visitor.visit(warden.webhook_port()).await
    })
    .await?;
    drop(warden);
    cluster.stop().await;
    Ok(())
}
