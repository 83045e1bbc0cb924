//! More comes in than it takes.

use super::ward::{SERVICE, Ward};
use crate::support::patience::wait_for_webhooks;
use anyhow::{Context, Result, ensure};
use rustls::{
    ClientConfig, DigitallySignedStruct, Error, SignatureScheme,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    crypto::ring,
    pki_types::{CertificateDer, ServerName, UnixTime},
};
use std::{io, sync::Arc, time::Duration};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    task::JoinSet,
    time::interval,
};
use tokio_rustls::{TlsConnector, client::TlsStream};
use volume_warden_controlplane::eventually;

/// All it takes.
const CONNECTIONS: usize = 512;
/// Whoever asks nothing for two minutes is cut.
const PAUSE: Duration = Duration::from_secs(30);
/// Some of which wait for as long as a review may take to arrive, and the rest for those.
const REVIEWS: usize = 256;
/// Whose path they are sent to.
const SWAMPED: &str = "claims.pvc-protection.volume-warden.dev";

/// A client that holds every connection there is, each with one answered request, so that it may stay.
#[tokio::test]
async fn by_connections() -> Result<()> {
    let ward = Ward::open("connections").await?;
    ward.kill()?;
    let healthy = ward.successor().start().await?;
    let hostile = Hostile::new(healthy.webhook_port());
    let mut held = JoinSet::new();
    for _ in 0..CONNECTIONS {
        let mut connection = hostile.connect().await?;
        ask(&mut connection).await?;
        held.spawn(async move {
            let mut pause = interval(PAUSE);
            while ask(&mut connection).await.is_ok() {
                pause.tick().await;
            }
        });
    }
    let webhooks = ward.cluster.webhooks();
    webhooks.serve(SERVICE, vec![healthy.webhook_port()]);
    ward.nobody_notices().await?;
    drop(held);
    ward.recovers().await
}

/// Something that is answered.
async fn ask(connection: &mut TlsStream<TcpStream>) -> io::Result<()> {
    let question = b"GET / HTTP/1.1\r\nhost: x\r\n\r\n";
    connection.write_all(question).await?;
    connection.read_exact(&mut [0; 16]).await.map(drop)
}

/// Clients that hold every place for reviews of claims with reviews that never arrive, and come back when they are sent away.
#[tokio::test]
async fn by_reviews() -> Result<()> {
    let ward = Ward::open("reviews").await?;
    // The others are looked at for whether they answer, while half of the machine is busy with the clients.
    wait_for_webhooks(ward.cluster, Some(SWAMPED)).await?;
    let hostile = Arc::new(Hostile::new(ward.warden.webhook_port()));
    let mut clients = JoinSet::new();
    for _ in 0..REVIEWS {
        let hostile = hostile.clone();
        clients.spawn(async move {
            loop {
                // Sent away or cut off: again.
                let _ = hostile.half_a_review().await;
            }
        });
    }
    eventually("they are all there", async || {
        let metrics = ward.warden.metrics().await?;
        let mut lines = metrics.lines();
        let open = lines.find_map(|line| line.strip_prefix("volume_warden_admission_connections "));
        let open: usize = open.context("no such metric")?.parse()?;
        ensure!(open >= REVIEWS, "{open}");
        Ok(())
    })
    .await?;
    ward.nobody_answers().await?;
    ward.users.live().await?;
    let unasked = ward.unasked()?;
    let claims = |webhook: &String| webhook == SWAMPED;
    ensure!(
        unasked
            .iter()
            .any(|asked| asked.webhooks.iter().any(claims)),
        "the path was not swamped: {unasked:?}"
    );
    ensure!(
        unasked
            .iter()
            .all(|asked| asked.resource == "persistentvolumeclaims"),
        "other paths were: {unasked:?}"
    );
    clients.shutdown().await;
    ward.recovers().await
}

/// Somebody in the cluster who can reach the port.
struct Hostile {
    port: u16,
    connector: TlsConnector,
}

impl Hostile {
    fn new(port: u16) -> Self {
        let provider = Arc::new(ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map(|builder| {
                let dangerous = builder.dangerous();
                let config = dangerous.with_custom_certificate_verifier(Arc::new(Careless));
                config.with_no_client_auth()
            });
        let config = config.expect("ring knows the default versions");
        Self {
            port,
            connector: TlsConnector::from(Arc::new(config)),
        }
    }

    async fn connect(&self) -> Result<TlsStream<TcpStream>> {
        let tcp = TcpStream::connect(("127.0.0.1", self.port)).await?;
        Ok(self
            .connector
            .connect(ServerName::try_from(SERVICE)?, tcp)
            .await?)
    }

    async fn half_a_review(&self) -> Result<()> {
        let mut connection = self.connect().await?;
        let head = b"POST /pvc-protection/claims HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\n{";
        connection.write_all(head).await?;
        tokio::io::copy(&mut connection, &mut tokio::io::sink()).await?;
        Ok(())
    }
}

/// Cares for no certificate.
#[derive(Debug)]
struct Careless;

impl ServerCertVerifier for Careless {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        ring::default_provider()
            .signature_verification_algorithms
            .supported_schemes()
    }
}
