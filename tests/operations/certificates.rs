//! Certificates: one Secret for all replicas, kept up to date; or files.

mod authorities;
mod cert_manager;
mod clients;
mod clock;
mod expiry;
pub mod visitor;

use self::visitor::{CONFIGURATION, bundle};
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

/// Twice the usual timeout: files and configurations are polled at an interval.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// The certificate's Secret and the caBundle that the API server trusts.
struct Trust {
    secrets: Api<Secret>,
    configurations: Api<MutatingWebhookConfiguration>,
    client: Client,
}

impl Trust {
    fn of(cluster: &Cluster) -> Self {
        let client = cluster.client();
        Self {
            secrets: Api::namespaced(client.clone(), "volume-warden"),
            configurations: Api::all(client.clone()),
            client,
        }
    }

    async fn secret(&self, key: &str) -> Result<Option<String>> {
        let secret = self.secrets.get_opt("volume-warden-tls").await?;
        let value = secret.and_then(|secret| secret.data?.remove(key));
        Ok(value.map(|value| String::from_utf8(value.0)).transpose()?)
    }

    async fn bundle(&self) -> Result<String> {
        bundle(&self.client).await
    }
}

/// Writes this caBundle to all webhooks of a configuration that was read before.
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
    let mut left = names.len();
    for configuration in configurations(client).await? {
        if names.contains(&configuration.name()?) {
            publish(client, &configuration, bundle).await?;
            left -= 1;
        }
    }
    ensure!(left == 0, "not all of {names:?} were found");
    Ok(())
}

/// Two replicas serve one certificate; a Secret that is deleted and applied again empty is restored
/// with the same content, an empty caBundle is filled again, and each replica alone answers.
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
    let trust = Trust::of(&cluster);
    let authority = trust.secret("ca.crt").await?.context("a CA")?;
    assert_eq!(trust.bundle().await?, authority);

    trust
        .secrets
        .delete("volume-warden-tls", &DeleteParams::default())
        .await?;
    manifests::apply(&cluster, &repository().join("manifests")).await?;
    let empty = json!({"webhooks": [{"name": "claims.pvc-protection.volume-warden.dev", "clientConfig": {"caBundle": null}}]});
    trust
        .configurations
        .patch(
            CONFIGURATION,
            &PatchParams::default(),
            &Patch::Strategic(empty),
        )
        .await?;
    eventually_within(
        PATIENCE,
        "Secret and caBundle are whole again",
        async || {
            let (secret, bundle) = (trust.secret("ca.crt").await?, trust.bundle().await?);
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
    let damage = json!({"data": {"ca.key": ByteString(b"junk".to_vec())}});
    let damage = Patch::Merge(damage);
    trust
        .secrets
        .patch("volume-warden-tls", &parameters, &damage)
        .await?;
    let foreign = rcgen::generate_simple_self_signed(["foreign".to_owned()])?;
    publish_in(&trust.client, &[CONFIGURATION], &foreign.cert.pem()).await?;
    eventually_within(
        PATIENCE,
        "they are repaired, with the same CA",
        async || {
            let key = trust.secret("ca.key").await?;
            ensure!(key.is_some_and(|key| key.contains("PRIVATE KEY")), "no key");
            let (secret, bundle) = (trust.secret("ca.crt").await?, trust.bundle().await?);
            ensure!(secret.as_ref() == Some(&authority) && bundle == authority);
            Ok(())
        },
    )
    .await?;
    first.process().kill()?;
    webhooks_answer(&cluster.client()).await?;
    Ok(())
}

/// As with cert-manager, files hold the Secret's content, and another controller writes the
/// caBundle. Volume Warden uses no right to Secrets.
#[tokio::test]
async fn a_mounted_certificate_is_served() -> Result<()> {
    let cluster = fresh::installed().await?;
    let trust = Trust::of(&cluster);
    let maker = Warden::builder(&cluster, BINARY)
        .name("maker")
        .start()
        .await?;
    // A replica is ready as soon as one webhook trusts its certificate. The write to another
    // configuration may have met the publication of the path, and is repeated later.
    eventually("the CA is published", async || {
        ensure!(Some(trust.bundle().await?) == trust.secret("ca.crt").await?);
        Ok(())
    })
    .await?;
    maker.stop().await?;
    let files = tempfile::tempdir()?;
    for key in ["tls.crt", "tls.key"] {
        std::fs::write(
            files.path().join(key),
            trust.secret(key).await?.context(key)?,
        )?;
    }
    trust
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
        trust.secret("tls.crt").await?.is_none(),
        "with files there is no Secret to make"
    );
    drop(served);
    Ok(())
}
