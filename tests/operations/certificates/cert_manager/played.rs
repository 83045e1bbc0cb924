//! A simulation of the behavior of cert-manager on which the overlay relies. The simulation reads
//! the applied Issuers and Certificates. It writes `tls.crt`, `tls.key` and `ca.crt` to the Secret.
//! For webhook configurations with the annotation `cert-manager.io/inject-ca-from`, it writes the
//! `ca.crt` of that Certificate's Secret to the caBundles.

use super::{NAMESPACE, Overlay, new_certificate_is_served, text};
use crate::{
    certificates::{TIMEOUT, publish},
    fresh,
    support::{granted::role_is_used, webhook_configurations::configurations, webhooks_answer},
};
use anyhow::{Context, Result, ensure};
use k8s_openapi::{ByteString, api::core::v1::Secret};
use kube::api::{Patch, PatchParams, PostParams};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use serde_json::json;
use std::collections::BTreeMap;
use volume_warden_controlplane::{eventually, eventually_within};

type Authority = CertifiedIssuer<'static, KeyPair>;

impl Overlay<'_> {
    /// Issues a self-signed CA with this key, after checking that the Issuer of the served
    /// certificate uses the Secret of the CA's Certificate, and that the CA keeps its key.
    async fn authority(&self, key: &KeyPair) -> Result<Authority> {
        let served = self.object("Certificate", "volume-warden").await?;
        let issuer = text(&served, "/spec/issuerRef/name")?;
        let issuer = self.object("Issuer", issuer).await?;
        let secret = text(&issuer, "/spec/ca/secretName")?;
        let authority = self.object("Certificate", "volume-warden-ca").await?;
        ensure!(text(&authority, "/spec/secretName")? == secret);
        ensure!(authority["spec"]["isCA"] == true);
        let rotation_policy = text(&authority, "/spec/privateKey/rotationPolicy")?;
        ensure!(
            rotation_policy == "Never",
            "the old CA would not trust certificates of a new key"
        );
        let mut parameters = CertificateParams::new(vec![])?;
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let name = text(&authority, "/spec/commonName")?;
        parameters.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::from_pem(&key.serialize_pem())?;
        Ok(CertifiedIssuer::self_signed(parameters, key)?)
    }

    /// Issues a new serving certificate, and writes it to the Secret of its Certificate.
    async fn issue(&self, authority: &Authority) -> Result<()> {
        let served = self.object("Certificate", "volume-warden").await?;
        let names: Vec<String> = serde_json::from_value(served["spec"]["dnsNames"].clone())?;
        let (mut parameters, key) = (CertificateParams::new(names)?, KeyPair::generate()?);
        parameters.use_authority_key_identifier_extension = true;
        let certificate = parameters.signed_by(&key, authority)?;
        let entries = [
            ("tls.crt", certificate.pem()),
            ("tls.key", key.serialize_pem()),
            ("ca.crt", authority.pem()),
        ];
        let data: BTreeMap<_, _> = entries
            .into_iter()
            .map(|(key, text)| (key.to_owned(), ByteString(text.into_bytes())))
            .collect();
        let name = text(&served, "/spec/secretName")?;
        let secret: Secret = serde_json::from_value(json!({
            "metadata": {"name": name}, "type": "kubernetes.io/tls", "data": data,
        }))?;
        if self.secrets.get_opt(name).await?.is_none() {
            self.secrets.create(&PostParams::default(), &secret).await?;
        } else {
            let data = json!({"data": data});
            let merge = Patch::Merge(data);
            self.secrets
                .patch(name, &PatchParams::default(), &merge)
                .await?;
        }
        Ok(())
    }

    /// Writes caBundles as cainjector does, to every webhook configuration: the CA in the Secret,
    /// or `other`.
    async fn inject(&self, other: Option<&str>) -> Result<()> {
        let client = self.cluster.client();
        for configuration in configurations(&client).await? {
            let from = text(
                &configuration.object,
                "/metadata/annotations/cert-manager.io~1inject-ca-from",
            )?;
            let certificate = from
                .strip_prefix("volume-warden/")
                .context("the namespace volume-warden")?;
            let certificate = self.object("Certificate", certificate).await?;
            let data = self.data(text(&certificate, "/spec/secretName")?).await?;
            let injected = match other {
                Some(other) => other.to_owned(),
                None => String::from_utf8(data.get("ca.crt").context("a CA")?.0.clone())?,
            };
            publish(&client, &configuration, &injected).await?;
        }
        Ok(())
    }
}

/// Volume Warden adopts a new serving certificate and a renewed CA, whether the caBundle or the
/// files change first. While a foreign CA is published, Volume Warden is not ready, and the log
/// names a webhook.
#[tokio::test]
async fn simulated_renewals_are_adopted() -> Result<()> {
    let cluster = fresh::api_server().await?;
    let mark = cluster.audit().mark()?;
    let overlay = Overlay::install(&cluster).await?;
    let key = KeyPair::generate()?;
    let authority = overlay.authority(&key).await?;
    overlay.issue(&authority).await?;
    overlay.mount().await?;
    overlay.inject(None).await?;
    let warden = overlay.start().await?;
    webhooks_answer(&cluster.client()).await?;
    let strict_client = overlay.strict_client();
    let served = async || {
        strict_client
            .served_certificate(warden.webhook_port())
            .await
    };
    let first = served().await?;
    overlay.issue(&authority).await?;
    overlay.mount().await?;
    new_certificate_is_served(&warden, &strict_client, &first).await?;

    // The CA is renewed with the same key. The first time, the caBundle is published before the
    // files change; the second time, after.
    let second = served().await?;
    let renewed = overlay.authority(&key).await?;
    overlay.issue(&renewed).await?;
    overlay.inject(None).await?;
    ensure!(
        served().await? == second,
        "the old certificate is no longer served"
    );
    overlay.mount().await?;
    new_certificate_is_served(&warden, &strict_client, &second).await?;
    let third = served().await?;
    overlay.issue(&overlay.authority(&key).await?).await?;
    overlay.mount().await?;
    new_certificate_is_served(&warden, &strict_client, &third).await?;
    overlay.inject(None).await?;
    served().await?;

    let foreign = rcgen::generate_simple_self_signed(["foreign".to_owned()])?;
    overlay.inject(Some(&foreign.cert.pem())).await?;
    eventually_within(TIMEOUT, "Volume Warden is not ready", async || {
        anyhow::Ok(!warden.ready().await?)
    })
    .await?;
    eventually("the log names a webhook", async || {
        let log = warden.process().log();
        anyhow::Ok(log.contains("the API server will not trust the certificate for webhook"))
    })
    .await?;
    overlay.inject(None).await?;
    eventually_within(TIMEOUT, "Volume Warden is ready", async || {
        anyhow::Ok(warden.ready().await?)
    })
    .await?;

    let all = cluster.audit().since(mark)?;
    let calls = all.by_user_agent("volume-warden/");
    let forbidden: Vec<_> = calls.iter().filter(|call| call.code == 403).collect();
    ensure!(forbidden.is_empty() && !calls.is_empty(), "{forbidden:?}");
    let mut secrets = calls.iter().filter(|call| call.resource == "secrets");
    ensure!(
        secrets.all(|call| call.name == "volume-warden-serving"),
        "a Secret other than that of the path was read"
    );
    for role in [
        ("ClusterRole", "volume-warden-trust"),
        ("Role", "volume-warden-serving"),
    ] {
        role_is_used(&cluster, &all, NAMESPACE, "volume-warden", role).await?;
    }
    Ok(())
}
