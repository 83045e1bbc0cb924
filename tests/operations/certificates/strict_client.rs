//! A client that checks certificates as strictly as the API server. The test can move its clock,
//! which is not possible for the API server.

use super::TIMEOUT;
use anyhow::{Context, Result, ensure};
use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
use kube::{Api, Client};
use rustls::{
    ClientConfig, RootCertStore,
    crypto::ring,
    pki_types::{CertificateDer, ServerName, pem::PemObject},
};
use std::{
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};
use tokio_rustls::{TlsConnector, client::TlsStream};
use volume_warden::{admission::Limits, clock::Clock};
use x509_parser::parse_x509_certificate;

const HOST: &str = "volume-warden.volume-warden.svc";

/// The name of the webhook configuration for claims.
pub const CONFIGURATION: &str = "volume-warden-pvc-protection";

/// The caBundle in [`CONFIGURATION`], as PEM.
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

/// A client that trusts the currently published caBundle, and opens a connection for each request.
#[derive(Clone)]
pub struct StrictClient {
    pub client: Client,
    pub clock: Clock,
    /// The time after which the server closes a connection on which no request with the secret path
    /// has arrived.
    pub handshake_limit: Duration,
}

impl StrictClient {
    /// A client with the system clock, for a server with the default limits.
    pub fn new(client: Client) -> Self {
        Self {
            client,
            clock: Clock::system(),
            handshake_limit: Limits::default().unauthenticated_timeout,
        }
    }

    /// Connects and sends a request. Returns an error if the certificate is not trusted, or if
    /// there is no response.
    pub async fn request(&self, port: u16) -> Result<()> {
        let request = format!("GET / HTTP/1.1\r\nhost: {HOST}\r\nconnection: close\r\n\r\n");
        let response = self.send(port, &request).await?;
        ensure!(response.starts_with("HTTP/1.1 "), "{response:?}");
        Ok(())
    }

    /// Sends this text as a request, and returns the response up to the end of the connection.
    pub async fn send(&self, port: u16, request: &str) -> Result<String> {
        let first = Instant::now();
        loop {
            let began = Instant::now();
            let mut tls = self.connect(port).await?;
            let mut response = Vec::new();
            let sent = async {
                tls.write_all(request.as_bytes()).await?;
                tls.read_to_end(&mut response).await
            };
            // A server that closes at once may omit the TLS close_notify.
            let sent = sent.await;
            if !response.is_empty() {
                return Ok(String::from_utf8(response)?);
            }
            // The request may have been sent too late, as the handshake in [`Self::connect`].
            if began.elapsed() < self.handshake_limit || first.elapsed() >= TIMEOUT {
                sent?;
                return Ok(String::new());
            }
        }
    }

    /// The certificate that the server presents.
    pub async fn served_certificate(&self, port: u16) -> Result<Vec<u8>> {
        let tls = self.connect(port).await?;
        let chain = tls.get_ref().1.peer_certificates();
        let certificate = chain.and_then(<[_]>::first).context("a certificate")?;
        Ok(certificate.to_vec())
    }

    async fn connect(&self, port: u16) -> Result<TlsStream<TcpStream>> {
        let bundle = bundle(&self.client).await?;
        let provider = Arc::new(ring::default_provider());
        let config = ClientConfig::builder_with_details(provider, Arc::new(self.clock.clone()))
            .with_safe_default_protocol_versions()?
            .with_root_certificates(self.roots(&bundle)?)
            .with_no_client_auth();
        let connector = TlsConnector::from(Arc::new(config));
        let first = Instant::now();
        loop {
            let began = Instant::now();
            let tcp = TcpStream::connect(("127.0.0.1", port)).await?;
            match connector.connect(ServerName::try_from(HOST)?, tcp).await {
                // The server closes a connection whose client takes longer, and other tests may
                // delay this client for that long. Such a failure shows nothing about the
                // certificate.
                Err(_) if began.elapsed() >= self.handshake_limit && first.elapsed() < TIMEOUT => {}
                connected => return Ok(connected?),
            }
        }
    }

    /// The certificates of the caBundle that are valid now: Go rejects an expired root, but rustls
    /// accepts it.
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
