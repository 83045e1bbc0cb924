//! Events about certificates that are not renewed.

use super::{TIMEOUT, publish_in, strict_client::StrictClient};
use crate::{fresh, support::BINARY};
use anyhow::{Result, ensure};
use k8s_openapi::api::{coordination::v1::Lease, core::v1::Event};
use kube::{Api, api::ListParams};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use std::{fs, path::Path};
use time::{Duration, OffsetDateTime};
use volume_warden_controlplane::{Cluster, Interposer, Rule, Warden, eventually_within};

/// The messages of the published Events, each with the UID of its object.
async fn published_events(cluster: &Cluster) -> Result<Vec<(String, Option<String>)>> {
    let events: Api<Event> = Api::namespaced(cluster.client(), "volume-warden");
    let with_reason = ListParams::default().fields("reason=CertificateNotRenewed");
    let events = events.list(&with_reason).await?.items.into_iter();
    Ok(events
        .map(|event| (event.message.unwrap_or_default(), event.involved_object.uid))
        .collect())
}

/// Writes a certificate with a lifetime of 100 days, of which `left` days remain.
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
    // The key and the certificate do not match for a moment, as when a user replaces the files.
    fs::write(directory.join("tls.key"), key.serialize_pem())?;
    fs::write(directory.join("tls.crt"), certificate.pem())?;
    Ok(())
}

/// Publishes the caBundle in the two webhook configurations of pv-protection.
async fn publish_to_both(cluster: &Cluster, bundle: &str) -> Result<()> {
    let both = [
        "volume-warden-pv-protection",
        "volume-warden-pv-protection-guard",
    ];
    publish_in(&cluster.client(), &both, bundle).await
}

/// For mounted files, Volume Warden publishes one Event on the Lease for each threshold that each
/// certificate reaches.
#[tokio::test]
async fn one_event_per_threshold_of_a_mounted_certificate() -> Result<()> {
    let cluster = fresh::installed().await?;
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
    // The certificates with 5 and with 4 days left reach the same threshold, and each gets an
    // Event. The last certificate is new and gets none.
    for (left, expected) in [(12, 1), (5, 2), (4, 3), (90, 3)] {
        if left != 12 {
            old_certificate(&authority, left, directory.path())?;
        }
        let what = "the expected Events are published, and no others";
        eventually_within(TIMEOUT, what, async || {
            let metrics = warden.metrics().await?;
            let served =
                "volume_warden_certificate_expiration_timestamp_seconds{certificate=\"Served\"} ";
            let seconds = metrics.lines().find_map(|line| line.strip_prefix(served));
            let expires: i64 = seconds.unwrap_or("0").parse()?;
            let seconds = expires - time::OffsetDateTime::now_utc().unix_timestamp();
            ensure!(seconds / 86_400 == left, "{seconds} s are left");
            let events = published_events(&cluster).await?;
            ensure!(events.len() == expected, "{events:?}");
            Ok(())
        })
        .await?;
    }
    // Volume Warden checks the certificate frequently while it is not trusted, and must not publish
    // the Event again at each check.
    let foreign = rcgen::generate_simple_self_signed(["foreign".to_owned()])?;
    old_certificate(&authority, 3, directory.path())?;
    publish_to_both(&cluster, &foreign.cert.pem()).await?;
    eventually_within(
        TIMEOUT,
        "the Event is published, and Volume Warden is not ready",
        async || {
            ensure!(published_events(&cluster).await?.len() == 4 && !warden.ready().await?);
            anyhow::Ok(())
        },
    )
    .await?;
    publish_to_both(&cluster, &authority.pem()).await?;
    eventually_within(TIMEOUT, "Volume Warden is ready", async || {
        anyhow::Ok(warden.ready().await?)
    })
    .await?;
    let events = published_events(&cluster).await?;
    assert_eq!(events.len(), 4, "{events:?}");
    let leases: Api<Lease> = Api::namespaced(cluster.client(), "volume-warden");
    let lease = leases.get("volume-warden").await?.metadata.uid;
    for (note, uid) in published_events(&cluster).await? {
        ensure!(uid == lease, "the Event is on {uid:?}");
        for words in ["the certificate of the webhooks expires", &file("tls.crt")] {
            ensure!(note.contains(words), "{note}");
        }
    }
    Ok(())
}

/// The Secret cannot be written. An Event reports this before the certificate expires, and Volume
/// Warden is not ready after the expiry. Once writes succeed, the certificate is renewed.
#[tokio::test]
async fn a_failing_renewal_is_reported_and_recovers() -> Result<()> {
    let cluster = fresh::installed().await?;
    let interposer =
        Interposer::for_service_account(&cluster, "volume-warden", "volume-warden").await?;
    let warden = Warden::builder(&cluster, BINARY)
        .kubeconfig(interposer.kubeconfig())
        .arg("--tls-ca-lifetime=90s")
        .arg("--tls-certificate-lifetime=30s")
        .start()
        .await?;
    let refused = interposer.add(Rule::on("PUT").path_contains("/secrets/").respond(
        403,
        "Forbidden",
        "not today",
    ));
    eventually_within(TIMEOUT, "the Event is published", async || {
        let events = published_events(&cluster).await?;
        let source = "the Secret volume-warden/volume-warden-tls";
        ensure!(
            events.iter().any(|(note, _)| note.contains(source)),
            "{events:?}"
        );
        Ok(())
    })
    .await?;
    eventually_within(
        TIMEOUT,
        "Volume Warden is not ready, because the certificate has expired",
        async || anyhow::Ok(!warden.ready().await?),
    )
    .await?;
    drop(refused);
    let strict_client = StrictClient::new(cluster.client());
    eventually_within(
        TIMEOUT,
        "the certificate is renewed and trusted, and Volume Warden is ready",
        async || {
            ensure!(warden.ready().await?, "not ready");
            strict_client.request(warden.webhook_port()).await
        },
    )
    .await?;
    Ok(())
}
