//! cert-manager's own controllers and its cainjector. Building them takes minutes, so the weekly run
//! has this test.

use super::{NAMESPACE, Overlay, SECRET, follows};
use crate::{
    certificates::{PATIENCE, visitor::bundle},
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
    /// Waits for a certificate in the Secret that differs from `before`.
    async fn issued(&self, secret: &str, before: Option<&ByteString>) -> Result<Data> {
        eventually_within(PATIENCE, &format!("{secret} is new"), async || {
            let issued = self.data(secret).await?;
            ensure!(issued.get("tls.crt") != before, "as before");
            Ok(Some(issued))
        })
        .await
    }

    /// Has cert-manager issue a new leaf, which is not mounted yet.
    async fn renew(&self) -> Result<Data> {
        let before = self.data(SECRET).await?.remove("tls.crt");
        let delete = ["delete", "secret", SECRET, "-n", NAMESPACE];
        self.cluster.kubectl(&delete).await?;
        self.issued(SECRET, before.as_ref()).await
    }

    /// Has cert-manager issue a new CA by changing its Certificate. Returns the old one and the
    /// new one.
    async fn replace_ca(&self, spec: &Value) -> Result<[Data; 2]> {
        let old = self.data(CA).await?;
        let changes = json!({"spec": spec}).to_string();
        let patch = ["patch", "certificate", CA, "-n", NAMESPACE, "--type=merge"];
        let patch = [&patch[..], &["-p", &changes]].concat();
        self.cluster.kubectl(&patch).await?;
        let new = self.issued(CA, old.get("tls.crt")).await?;
        Ok([old, new])
    }

    /// Waits until clients may trust certificates that either CA signed.
    async fn published(&self, authorities: &[Data; 2]) -> Result<()> {
        eventually_within(PATIENCE, "both CAs are published", async || {
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

/// A new leaf; then a new CA and a leaf signed by it, with the same key and with another one. The
/// files are updated late.
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
    let visitor = overlay.visitor();
    let served = async || visitor.served(warden.webhook_port()).await;

    let first = served().await?;
    overlay.renew().await?;
    ensure!(served().await? == first, "the old one is trusted");
    overlay.mount().await?;
    follows(&warden, &visitor, &first).await?;

    for (changes, keeps_its_key) in [
        (json!({"duration": "43801h"}), true),
        (
            json!({"duration": "43802h", "privateKey": {"rotationPolicy": "Always"}}),
            false,
        ),
    ] {
        let before = served().await?;
        let authorities = overlay.replace_ca(&changes).await?;
        let [old, new] = authorities.each_ref().map(|data| data.get("tls.key"));
        ensure!((old == new) == keeps_its_key, "{changes}");
        let leaf = overlay.renew().await?;
        ensure!(
            leaf.get("ca.crt") == authorities[1].get("tls.crt"),
            "whose leaf?"
        );
        overlay.published(&authorities).await?;
        ensure!(
            served().await? == before && warden.ready().await,
            "the old one is trusted"
        );
        overlay.mount().await?;
        follows(&warden, &visitor, &before).await?;
    }
    webhooks_answer(&cluster.client()).await?;
    drop((warden, controllers));
    cluster.stop().await;
    Ok(())
}
