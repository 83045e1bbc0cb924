//! A client as strict as the API server, with a clock that can be moved: the API server's own cannot.

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
use kube::{Api, Client};
use rustls::{
    ClientConfig, RootCertStore,
    crypto::ring,
    pki_types::{CertificateDer, ServerName, pem::PemObject},
};
use std::sync::Arc;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};
use tokio_rustls::{TlsConnector, client::TlsStream};
use volume_warden::clock::Clock;
use x509_parser::parse_x509_certificate;

const HOST: &str = "volume-warden.volume-warden.svc";

/// The configuration that claims are sent by.
pub const CONFIGURATION: &str = "volume-warden-pvc-protection";

/// The caBundle that it holds, as PEM.
pub async fn bundle(client: &Client) -> Result<String> {
    let configurations: Api<MutatingWebhookConfiguration> = Api::all(client.clone());
    let configuration = configurations.get(CONFIGURATION).await?;
    let webhook = configuration
        .webhooks
        .and_then(|mut webhooks| webhooks.pop())
        .context("a webhook")?;
    let bundle = webhook.client_config.ca_bundle.unwrap_or_default();
    Ok(String::from_utf8(bundle.0)?)
}

/// A client that trusts the CA that is published at the moment, and opens a connection for each visit.
#[derive(Clone)]
pub struct Visitor {
    pub client: Client,
    pub clock: Clock,
}

impl Visitor {
    /// Shakes hands and is answered, or says why not.
    pub async fn visit(&self, port: u16) -> Result<()> {
        let mut tls = self.shake_hands(port).await?;
        let request = format!("GET / HTTP/1.1\r\nhost: {HOST}\r\nconnection: close\r\n\r\n");
        tls.write_all(request.as_bytes()).await?;
        let mut answer = String::new();
        tls.read_to_string(&mut answer).await?;
        ensure!(answer.starts_with("HTTP/1.1 "), "{answer:?}");
        Ok(())
    }

    /// Sends this text as a request, and returns everything that is answered until the connection ends.
    pub async fn ask(&self, port: u16, request: &str) -> Result<String> {
        let mut tls = self.shake_hands(port).await?;
        tls.write_all(request.as_bytes()).await?;
        let mut answer = Vec::new();
        // A server that closes at once may do without TLS' own farewell.
        let _ = tls.read_to_end(&mut answer).await;
        Ok(String::from_utf8(answer)?)
    }

    /// The certificate that is served there.
    pub async fn served(&self, port: u16) -> Result<Vec<u8>> {
        let tls = self.shake_hands(port).await?;
        let shown = tls.get_ref().1.peer_certificates();
        let leaf = shown.and_then(<[_]>::first).context("a certificate")?;
        Ok(leaf.to_vec())
    }

    async fn shake_hands(&self, port: u16) -> Result<TlsStream<TcpStream>> {
        let bundle = bundle(&self.client).await?;
        let provider = Arc::new(ring::default_provider());
        let config = ClientConfig::builder_with_details(provider, Arc::new(self.clock.clone()))
            .with_safe_default_protocol_versions()?
            .with_root_certificates(self.roots(&bundle)?)
            .with_no_client_auth();
        let tcp = TcpStream::connect(("127.0.0.1", port)).await?;
        let connector = TlsConnector::from(Arc::new(config));
        Ok(connector.connect(ServerName::try_from(HOST)?, tcp).await?)
    }

    /// Go trusts no root that has expired; rustls does.
    fn roots(&self, bundle: &str) -> Result<RootCertStore> {
        let (mut roots, now) = (RootCertStore::empty(), self.clock.now().unix_timestamp());
        for root in CertificateDer::pem_slice_iter(bundle.as_bytes()) {
            let root = root?;
            let validity = parse_x509_certificate(&root)?.1.validity().clone();
            if (validity.not_before.timestamp()..=validity.not_after.timestamp()).contains(&now) {
                roots.add(root)?;
            }
        }
        Ok(roots)
    }
}
