//! The cert-manager overlay with cert-manager's own controllers and its cainjector. Building them
//! takes minutes, so this test runs weekly.

use super::{NAMESPACE, Overlay, SECRET, new_certificate_is_served};
use crate::{
    certificates::{TIMEOUT, strict_client::bundle},
    support::webhooks_answer,
};
use anyhow::{Context, Result, ensure};
use k8s_openapi::ByteString;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use volume_warden_controlplane::{Cluster, eventually_within};

const CA: &str = "volume-warden-ca";

type Data = BTreeMap<String, ByteString>;

impl Overlay<'_> {
    /// Waits until the Secret has another certificate than `before`, and returns its data.
    async fn issued(&self, secret: &str, before: Option<&ByteString>) -> Result<Data> {
        eventually_within(
            TIMEOUT,
            &format!("{secret} has a new certificate"),
            async || {
                let issued = self.data(secret).await?;
                ensure!(
                    issued.get("tls.crt") != before,
                    "the certificate has not changed"
                );
                Ok(Some(issued))
            },
        )
        .await
    }

    /// Makes cert-manager issue a new serving certificate, without mounting it.
    async fn renew(&self) -> Result<Data> {
        let before = self.data(SECRET).await?.remove("tls.crt");
        let delete = ["delete", "secret", SECRET, "-n", NAMESPACE];
        self.cluster.kubectl(&delete).await?;
        self.issued(SECRET, before.as_ref()).await
    }

    /// Makes cert-manager issue a new CA by changing the CA's Certificate. Returns the data of the
    /// old and of the new CA.
    async fn replace_ca(&self, spec: &Value) -> Result<[Data; 2]> {
        let old = self.data(CA).await?;
        let changes = json!({"spec": spec}).to_string();
        let patch = ["patch", "certificate", CA, "-n", NAMESPACE, "--type=merge"];
        let patch = [&patch[..], &["-p", &changes]].concat();
        self.cluster.kubectl(&patch).await?;
        let new = self.issued(CA, old.get("tls.crt")).await?;
        Ok([old, new])
    }

    /// Waits until the caBundle contains both CAs.
    async fn published(&self, authorities: &[Data; 2]) -> Result<()> {
        eventually_within(TIMEOUT, "both CAs are published", async || {
            let published = bundle(&self.cluster.client()).await?;
            for authority in authorities {
                let pem = authority.get("tls.crt").context("a CA")?;
                let pem = std::str::from_utf8(&pem.0)?;
                ensure!(published.contains(pem), "{published}");
            }
            anyhow::Ok(())
        })
        .await
    }
}

/// cert-manager issues a new serving certificate, then a new CA with the same key, and then a new
/// CA with another key, each with a serving certificate that it signs. Each is mounted with a
/// delay.
#[tokio::test]
#[ignore = "builds cert-manager: cargo test --test operations cert_manager -- --ignored"]
async fn certificates_of_cert_manager_are_adopted() -> Result<()> {
    let cluster = Cluster::without_in_tree()
        .name("cert-manager-itself")
        .start()
        .await?;
    let overlay = Overlay::install(&cluster).await?;
    let controllers = cluster.run_cert_manager().await?;
    overlay.issued(SECRET, None).await?;
    overlay.mount().await?;
    let warden = overlay.start().await?;
    webhooks_answer(&cluster.client()).await?;
    let strict_client = overlay.strict_client();
    let served = async || {
        strict_client
            .served_certificate(warden.webhook_port())
            .await
    };

    let first = served().await?;
    overlay.renew().await?;
    ensure!(
        served().await? == first,
        "an unmounted certificate is served"
    );
    overlay.mount().await?;
    new_certificate_is_served(&warden, &strict_client, &first).await?;

    for (changes, keeps_key) in [
        (json!({"duration": "43801h"}), true),
        (
            json!({"duration": "43802h", "privateKey": {"rotationPolicy": "Always"}}),
            false,
        ),
    ] {
        let before = served().await?;
        let authorities = overlay.replace_ca(&changes).await?;
        let [old, new] = authorities.each_ref().map(|data| data.get("tls.key"));
        ensure!((old == new) == keeps_key, "{changes}");
        let renewed = overlay.renew().await?;
        ensure!(
            renewed.get("ca.crt") == authorities[1].get("tls.crt"),
            "the certificate is not of the new CA"
        );
        overlay.published(&authorities).await?;
        ensure!(
            served().await? == before && warden.ready().await?,
            "the old certificate is no longer served and trusted"
        );
        overlay.mount().await?;
        new_certificate_is_served(&warden, &strict_client, &before).await?;
    }
    webhooks_answer(&cluster.client()).await?;
    drop((warden, controllers));
    cluster.stop().await;
    Ok(())
}
