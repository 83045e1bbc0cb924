//! Volume Warden receives more requests than it accepts.

use super::fixture::{OutageFixture, SERVICE};
use crate::support::{
    outsiders::connector,
    patience::wait_for_webhooks,
    webhook_configurations::{Configuration, configurations},
};
use anyhow::{Context, Result, ensure};
use rustls::pki_types::ServerName;
use std::sync::Arc;
use tokio::{io::AsyncWriteExt, net::TcpStream, task::JoinSet};
use tokio_rustls::{TlsConnector, client::TlsStream};
use volume_warden_controlplane::eventually;

/// Some clients hold a place for as long as a review may take to arrive; the others wait for one.
const REVIEWS: usize = 256;
/// The webhook whose path the clients use.
const SWAMPED: &str = "claims.pvc-trash.volume-warden.dev";

/// Clients fill every place for reviews of claims with reviews that never arrive, and reconnect
/// when they are disconnected.
#[tokio::test]
async fn reviews_fill_all_places() -> Result<()> {
    let fixture = OutageFixture::open("reviews").await?;
    // The test checks that the other webhooks answer, while the clients use half of the machine.
    wait_for_webhooks(&fixture.cluster, Some(SWAMPED)).await?;
    let hostile = Arc::new(Hostile::new(&fixture).await?);
    let mut clients = JoinSet::new();
    for _ in 0..REVIEWS {
        let hostile = hostile.clone();
        clients.spawn(async move {
            loop {
                // Refused or disconnected: connect again.
                let _ = hostile.half_a_review().await;
            }
        });
    }
    eventually("all clients are connected", async || {
        let metrics = fixture.warden.metrics().await?;
        let mut lines = metrics.lines();
        let open = lines.find_map(|line| line.strip_prefix("volume_warden_admission_connections "));
        let open: usize = open.context("no such metric")?.parse()?;
        ensure!(open >= REVIEWS, "{open}");
        Ok(())
    })
    .await?;
    fixture.webhooks_are_unavailable().await?;
    fixture.users.live().await?;
    let unasked = fixture.unasked()?;
    let claims = |webhook: &String| webhook == SWAMPED;
    ensure!(
        unasked
            .iter()
            .any(|asked| asked.webhooks.iter().any(claims)),
        "the path was not overloaded: {unasked:?}"
    );
    ensure!(
        unasked
            .iter()
            .all(|asked| asked.resource == "persistentvolumeclaims"),
        "other paths were: {unasked:?}"
    );
    clients.shutdown().await;
    fixture.recovers().await
}

/// A client that knows the path.
struct Hostile {
    port: u16,
    path: String,
    connector: TlsConnector,
}

impl Hostile {
    async fn new(fixture: &OutageFixture) -> Result<Self> {
        Ok(Self {
            port: fixture.warden.webhook_port(),
            path: published_path(fixture).await?,
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

/// The path to which the API server sends the reviews of that webhook.
async fn published_path(fixture: &OutageFixture) -> Result<String> {
    let configurations = configurations(&fixture.cluster.client()).await?;
    let mut webhooks = configurations.iter().flat_map(Configuration::webhooks);
    let swamped = webhooks.find(|webhook| webhook["name"] == SWAMPED);
    let path = swamped.and_then(|webhook| webhook["clientConfig"]["service"]["path"].as_str());
    path.map(str::to_owned).context("no path")
}
