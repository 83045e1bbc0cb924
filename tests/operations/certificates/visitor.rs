//! A client as strict as the API server, with a clock that the test can move, unlike the API
//! server's.

use super::PATIENCE;
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

/// The configuration of the webhook for claims.
pub const CONFIGURATION: &str = "volume-warden-pvc-protection";

/// The caBundle of that configuration, as PEM.
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

/// A client that trusts the currently published CA, and opens a connection for each visit.
#[derive(Clone)]
pub struct Visitor {
    pub client: Client,
    pub clock: Clock,
    /// The time after which the server closes a connection on which no request with the secret path
    /// has arrived.
    pub handshake_limit: Duration,
}

impl Visitor {
    /// A visitor of the released program, at the present time.
    pub fn new(client: Client) -> Self {
        Self {
            client,
            clock: Clock::system(),
            handshake_limit: Limits::default().stranger_time,
        }
    }

    /// Connects and sends a request; the error says why that failed.
    pub async fn visit(&self, port: u16) -> Result<()> {
        let mut tls = self.shake_hands(port).await?;
        let request = format!("GET / HTTP/1.1\r\nhost: {HOST}\r\nconnection: close\r\n\r\n");
        tls.write_all(request.as_bytes()).await?;
        let mut answer = String::new();
        tls.read_to_string(&mut answer).await?;
        ensure!(answer.starts_with("HTTP/1.1 "), "{answer:?}");
        Ok(())
    }

    /// Sends this text as a request, and returns the response up to the end of the connection.
    pub async fn ask(&self, port: u16, request: &str) -> Result<String> {
        let mut tls = self.shake_hands(port).await?;
        tls.write_all(request.as_bytes()).await?;
        let mut answer = Vec::new();
        // A server that closes at once may omit the TLS close_notify.
        let _ = tls.read_to_end(&mut answer).await;
        Ok(String::from_utf8(answer)?)
    }

    /// The certificate that the server presents.
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
        let connector = TlsConnector::from(Arc::new(config));
        let first = Instant::now();
        loop {
            let began = Instant::now();
            let tcp = TcpStream::connect(("127.0.0.1", port)).await?;
            match connector.connect(ServerName::try_from(HOST)?, tcp).await {
                // The server rightly closes a connection whose client takes longer, and other tests
                // may delay this one so long. Nothing is known about the certificate then.
                Err(_) if began.elapsed() >= self.handshake_limit && first.elapsed() < PATIENCE => {
                }
                connected => return Ok(connected?),
            }
        }
    }

    /// Go refuses an expired root; rustls accepts it.
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
