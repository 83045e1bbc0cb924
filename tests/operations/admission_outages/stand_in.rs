//! A server at Volume Warden's address, with a certificate of a CA that the webhook configurations
//! trust.

use super::fixture::{OutageFixture, SERVICE};
use anyhow::Result;
use k8s_openapi::{
    ByteString,
    api::admissionregistration::v1::{
        MutatingWebhookConfiguration, ValidatingWebhookConfiguration,
    },
};
use kube::{
    Api, ResourceExt,
    api::{ListParams, PostParams},
};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::{
    ServerConfig,
    crypto::ring,
    pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer},
};
use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};
use time::{Duration, OffsetDateTime};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};
use tokio_rustls::TlsAcceptor;
use volume_warden_controlplane::Cluster;

/// A CA other than Volume Warden's.
pub struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    /// Creates a CA, and makes it the only one that all webhook configurations trust. Among the
    /// mutating configurations, that of pvc-trash is replaced last, and among the validating ones,
    /// that of pv-releaser.
    pub async fn trusted_by(cluster: &Cluster) -> Result<Self> {
        let mut parameters = CertificateParams::new(vec![])?;
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority = Self(CertifiedIssuer::self_signed(
            parameters,
            KeyPair::generate()?,
        )?);
        let (all, replace) = (ListParams::default(), PostParams::default());
        let bundle = || Some(ByteString(authority.0.pem().into_bytes()));
        let mutating: Api<MutatingWebhookConfiguration> = Api::all(cluster.client());
        let mut configurations = mutating.list(&all).await?.items;
        configurations.sort_by_key(|each| each.name_any() == "volume-warden-pvc-trash");
        for mut configuration in configurations {
            let webhooks = configuration.webhooks.iter_mut().flatten();
            webhooks.for_each(|webhook| webhook.client_config.ca_bundle = bundle());
            let name = configuration.metadata.name.clone().unwrap_or_default();
            mutating.replace(&name, &replace, &configuration).await?;
        }
        let validating: Api<ValidatingWebhookConfiguration> = Api::all(cluster.client());
        let mut configurations = validating.list(&all).await?.items;
        configurations.sort_by_key(|each| each.name_any() == "volume-warden-pv-releaser");
        for mut configuration in configurations {
            let webhooks = configuration.webhooks.iter_mut().flatten();
            webhooks.for_each(|webhook| webhook.client_config.ca_bundle = bundle());
            let name = configuration.metadata.name.clone().unwrap_or_default();
            validating.replace(&name, &replace, &configuration).await?;
        }
        Ok(authority)
    }

    /// A server configuration with a certificate for Volume Warden's Service that is valid for
    /// `days`.
    pub fn issue(&self, days: i64) -> Result<Arc<ServerConfig>> {
        let (mut leaf, key) = (
            CertificateParams::new(vec![SERVICE.to_owned()])?,
            KeyPair::generate()?,
        );
        let now = OffsetDateTime::now_utc();
        leaf.not_before = now - Duration::days(30);
        leaf.not_after = now + Duration::days(days);
        let certificate = leaf.signed_by(&key, &self.0)?;
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], key)?;
        Ok(Arc::new(config))
    }
}

/// A server that answers each request with the next of its responses, and closes the connection.
pub struct StandIn {
    answered: Arc<AtomicUsize>,
    task: JoinHandle<()>,
}

impl StandIn {
    /// Starts a server that receives Volume Warden's traffic until it is dropped.
    pub async fn start(
        fixture: &OutageFixture,
        config: &Arc<ServerConfig>,
        responses: Vec<Vec<u8>>,
    ) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let port = listener.local_addr()?.port();
        fixture.cluster.webhooks().serve(SERVICE, vec![port]);
        let answered = Arc::<AtomicUsize>::default();
        let (count, acceptor) = (answered.clone(), TlsAcceptor::from(config.clone()));
        let task = tokio::spawn(async move {
            while let Ok((tcp, _)) = listener.accept().await {
                let count = count.clone();
                let (acceptor, responses) = (acceptor.clone(), responses.clone());
                // In some tests, the API server intentionally does not trust the stand-in.
                tokio::spawn(async move { respond(tcp, acceptor, &responses, &count).await.ok() });
            }
        });
        Ok(Self { answered, task })
    }

    /// The number of requests received so far.
    pub fn answered(&self) -> usize {
        self.answered.load(Ordering::Relaxed)
    }
}

impl Drop for StandIn {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn respond(
    tcp: TcpStream,
    acceptor: TlsAcceptor,
    responses: &[Vec<u8>],
    count: &AtomicUsize,
) -> Result<()> {
    let mut tls = acceptor.accept(tcp).await?;
    // One read is enough to recognize a request.
    let mut head = [0; 16];
    tls.read_exact(&mut head).await?;
    let index = count.fetch_add(1, Ordering::Relaxed);
    tls.write_all(&responses[index % responses.len()]).await?;
    tls.shutdown().await?;
    // Closing with unread data would reset the connection and lose the response.
    tokio::io::copy(&mut tls, &mut tokio::io::sink()).await?;
    Ok(())
}
