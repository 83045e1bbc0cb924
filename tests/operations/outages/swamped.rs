//! More comes in than it takes.

use super::ward::{SERVICE, Ward};
use crate::support::{outsiders::connector, patience::wait_for_webhooks};
use anyhow::{Context, Result, ensure};
use rustls::pki_types::ServerName;
use std::sync::Arc;
use tokio::{io::AsyncWriteExt, net::TcpStream, task::JoinSet};
use tokio_rustls::{TlsConnector, client::TlsStream};
use volume_warden_controlplane::eventually;

/// Some of which wait for as long as a review may take to arrive, and the rest for those.
const REVIEWS: usize = 256;
/// Whose path they are sent to.
const SWAMPED: &str = "claims.pvc-protection.volume-warden.dev";

/// Clients that hold every place for reviews of claims with reviews that never arrive, and come back when they are sent away.
#[tokio::test]
async fn by_reviews() -> Result<()> {
    let ward = Ward::open("reviews").await?;
    // The others are looked at for whether they answer, while half of the machine is busy with the clients.
    wait_for_webhooks(ward.cluster, Some(SWAMPED)).await?;
    let hostile = Arc::new(Hostile::new(&ward).await?);
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

/// A client that knows the path.
struct Hostile {
    port: u16,
    path: String,
    connector: TlsConnector,
}

impl Hostile {
    async fn new(ward: &Ward) -> Result<Self> {
        Ok(Self {
            port: ward.warden.webhook_port(),
            path: published_path(ward).await?,
            connector: connector(&[]),
        })
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
        let head = format!(
            "POST {}?timeout=30s HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\n{{",
            self.path
        );
        connection.write_all(head.as_bytes()).await?;
        tokio::io::copy(&mut connection, &mut tokio::io::sink()).await?;
        Ok(())
    }
}

/// Where the API server sends the reviews of the webhook that is swamped.
async fn published_path(ward: &Ward) -> Result<String> {
    let path = format!(
        "jsonpath={{.items[*].webhooks[?(@.name==\"{SWAMPED}\")].clientConfig.service.path}}"
    );
    let get = ["get", "mutatingwebhookconfigurations", "-o", &path];
    ward.cluster.kubectl(&get).await
}
