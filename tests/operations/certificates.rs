//! Serving certificates: from one Secret that all replicas share and renew, or from files.

mod authorities;
mod cert_manager;
mod clients;
mod clock;
mod expiry;
pub mod strict_client;

use self::strict_client::{CONFIGURATION, bundle};
use crate::{
    fresh,
    support::{
        BINARY, manifests, repository,
        webhook_configurations::{Configuration, configurations},
        webhooks_answer,
    },
};
use anyhow::{Context, Result, ensure};
use k8s_openapi::{
    ByteString,
    api::{admissionregistration::v1::MutatingWebhookConfiguration, core::v1::Secret},
};
use kube::{
    Api, Client,
    api::{DeleteParams, Patch, PatchParams},
};
use serde_json::json;
use std::time::Duration;
use volume_warden_controlplane::{Cluster, Warden, eventually, eventually_within};

/// Twice the usual timeout, because Volume Warden polls files and webhook configurations at an
/// interval.
pub const TIMEOUT: Duration = Duration::from_secs(120);

/// Access to the Secret of the certificate and to the published caBundle.
struct CertificateObjects {
    secrets: Api<Secret>,
    configurations: Api<MutatingWebhookConfiguration>,
    client: Client,
}

impl CertificateObjects {
    fn of(cluster: &Cluster) -> Self {
        let client = cluster.client();
        Self {
            secrets: Api::namespaced(client.clone(), "volume-warden"),
            configurations: Api::all(client.clone()),
            client,
        }
    }

    /// The value of a key of the Secret.
    async fn secret(&self, key: &str) -> Result<Option<String>> {
        let secret = self.secrets.get_opt("volume-warden-tls").await?;
        let value = secret.and_then(|secret| secret.data?.remove(key));
        Ok(value.map(|value| String::from_utf8(value.0)).transpose()?)
    }

    async fn bundle(&self) -> Result<String> {
        bundle(&self.client).await
    }
}

/// Writes this caBundle to all webhooks of the configuration.
async fn publish(client: &Client, configuration: &Configuration, bundle: &str) -> Result<()> {
    let bundle = ByteString(bundle.as_bytes().to_vec());
    let add = |index| {
        let path = format!("/webhooks/{index}/clientConfig/caBundle");
        json!({"op": "add", "path": path, "value": bundle})
    };
    let patch: Vec<_> = (0..configuration.webhooks().len()).map(add).collect();
    configuration.patch(client, &patch).await
}

/// Writes this caBundle to the configurations of these names.
async fn publish_in(client: &Client, names: &[&str], bundle: &str) -> Result<()> {
    let mut not_found = names.len();
    for configuration in configurations(client).await? {
        if names.contains(&configuration.name()?) {
            publish(client, &configuration, bundle).await?;
            not_found -= 1;
        }
    }
    ensure!(not_found == 0, "not all of {names:?} were found");
    Ok(())
}

/// Two replicas serve one certificate. With the same CA, they restore a Secret that was deleted and
/// applied again without data, an empty caBundle, an invalid key and a foreign caBundle. After one
/// replica is killed, the other one answers reviews.
#[tokio::test]
async fn replicas_share_and_repair_a_certificate() -> Result<()> {
    let cluster = fresh::installed().await?;
    let (first, _second) = tokio::try_join!(
        Warden::builder(&cluster, BINARY)
            .name("first")
            .serving()
            .start(),
        Warden::builder(&cluster, BINARY)
            .name("second")
            .serving()
            .start(),
    )?;
    webhooks_answer(&cluster.client()).await?;
    let objects = CertificateObjects::of(&cluster);
    let authority = objects.secret("ca.crt").await?.context("a CA")?;
    assert_eq!(objects.bundle().await?, authority);

    objects
        .secrets
        .delete("volume-warden-tls", &DeleteParams::default())
        .await?;
    manifests::apply(&cluster, &repository().join("manifests")).await?;
    let empty = json!({"webhooks": [{"name": "claims.pvc-protection.volume-warden.dev", "clientConfig": {"caBundle": null}}]});
    objects
        .configurations
        .patch(
            CONFIGURATION,
            &PatchParams::default(),
            &Patch::Strategic(empty),
        )
        .await?;
    eventually_within(
        TIMEOUT,
        "the Secret and the caBundle are restored",
        async || {
            let (secret, bundle) = (objects.secret("ca.crt").await?, objects.bundle().await?);
            ensure!(
                secret.as_ref() == Some(&authority),
                "the Secret: {secret:?}"
            );
            ensure!(bundle == authority, "the caBundle: {bundle}");
            Ok(())
        },
    )
    .await?;

    let parameters = PatchParams::default();
    let invalid_key = json!({"data": {"ca.key": ByteString(b"junk".to_vec())}});
    let invalid_key = Patch::Merge(invalid_key);
    objects
        .secrets
        .patch("volume-warden-tls", &parameters, &invalid_key)
        .await?;
    let foreign = rcgen::generate_simple_self_signed(["foreign".to_owned()])?;
    publish_in(&objects.client, &[CONFIGURATION], &foreign.cert.pem()).await?;
    eventually_within(
        TIMEOUT,
        "the Secret and the caBundle are repaired, with the same CA",
        async || {
            let key = objects.secret("ca.key").await?;
            ensure!(key.is_some_and(|key| key.contains("PRIVATE KEY")), "no key");
            let (secret, bundle) = (objects.secret("ca.crt").await?, objects.bundle().await?);
            ensure!(secret.as_ref() == Some(&authority) && bundle == authority);
            Ok(())
        },
    )
    .await?;
    first.process().kill()?;
    webhooks_answer(&cluster.client()).await?;
    Ok(())
}

/// The certificate is in files, and another process has published its CA, as with cert-manager.
/// Volume Warden serves the certificate and does not create a Secret.
#[tokio::test]
async fn a_mounted_certificate_is_served() -> Result<()> {
    let cluster = fresh::installed().await?;
    let objects = CertificateObjects::of(&cluster);
    let issuer = Warden::builder(&cluster, BINARY)
        .name("maker")
        .start()
        .await?;
    // A replica is ready as soon as one webhook trusts its certificate. The write to another
    // configuration may have conflicted with another write, and is repeated later.
    eventually("the CA is published", async || {
        ensure!(Some(objects.bundle().await?) == objects.secret("ca.crt").await?);
        Ok(())
    })
    .await?;
    issuer.stop().await?;
    let files = tempfile::tempdir()?;
    for key in ["tls.crt", "tls.key"] {
        std::fs::write(
            files.path().join(key),
            objects.secret(key).await?.context(key)?,
        )?;
    }
    objects
        .secrets
        .delete("volume-warden-tls", &DeleteParams::default())
        .await?;
    let file = |key: &str| files.path().join(key).to_string_lossy().into_owned();
    let served = Warden::builder(&cluster, BINARY)
        .arg(format!("--tls-cert-file={}", file("tls.crt")))
        .arg(format!("--tls-private-key-file={}", file("tls.key")))
        .serving()
        .start()
        .await?;
    webhooks_answer(&cluster.client()).await?;
    ensure!(
        objects.secret("tls.crt").await?.is_none(),
        "Volume Warden wrote the Secret although it serves files"
    );
    drop(served);
    Ok(())
}
