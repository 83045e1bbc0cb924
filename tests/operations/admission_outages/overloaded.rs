//! Volume Warden receives more requests than it can process at the same time.

use super::fixture::{OutageFixture, SERVICE};
use crate::support::{
    outsiders::connector,
    webhook_configurations::{Configuration, configurations},
};
use anyhow::{Context, Result, ensure};
use rustls::pki_types::ServerName;
use std::{net::Ipv4Addr, sync::Arc};
use tokio::{
    io::AsyncWriteExt,
    net::{TcpSocket, TcpStream},
    task::JoinSet,
};
use tokio_rustls::{TlsConnector, client::TlsStream};
use volume_warden_controlplane::eventually;

/// The number of clients. Some of them occupy every place for reviews, each until the time limit
/// for its review; the others wait for a place.
const CLIENTS: usize = 256;
/// The webhook whose path the clients use.
const OVERLOADED: &str = "claims.pvc-trash.volume-warden.dev";

/// Clients occupy every place for reviews of one webhook with reviews that they never complete, and
/// reconnect when they are disconnected. The other webhooks answer, and users' operations succeed.
#[tokio::test]
async fn reviews_fill_all_places() -> Result<()> {
    // The clients use half of the CPU time of this machine, so the other webhooks get more time to
    // answer.
    let fixture = OutageFixture::with_longest_timeouts("reviews", Some(OVERLOADED)).await?;
    let attacker = Arc::new(Attacker::new(&fixture).await?);
    let mut clients = JoinSet::new();
    for _ in 0..CLIENTS {
        let attacker = attacker.clone();
        clients.spawn(async move {
            loop {
                // If the client is refused or disconnected, it connects again.
                let _ = attacker.send_incomplete_review().await;
            }
        });
    }
    eventually("all clients are connected", async || {
        let metrics = fixture.warden.metrics().await?;
        let mut lines = metrics.lines();
        let open = lines.find_map(|line| line.strip_prefix("volume_warden_admission_connections "));
        let open: usize = open.context("no such metric")?.parse()?;
        ensure!(open >= CLIENTS, "{open} connections");
        Ok(())
    })
    .await?;
    fixture.webhooks_are_unavailable().await?;
    fixture.users.perform_all_operations().await?;
    let failed_open = fixture.failed_open()?;
    let is_overloaded = |webhook: &String| webhook == OVERLOADED;
    ensure!(
        failed_open
            .iter()
            .any(|calls| calls.webhooks.iter().any(is_overloaded)),
        "the webhook was not overloaded: {failed_open:?}"
    );
    ensure!(
        failed_open
            .iter()
            .all(|calls| calls.resource == "persistentvolumeclaims"),
        "webhooks for other resources failed open: {failed_open:?}"
    );
    clients.shutdown().await;
    fixture.recovers().await
}

/// An attacker who knows the secret path.
struct Attacker {
    port: u16,
    path: String,
    connector: TlsConnector,
}

impl Attacker {
    async fn new(fixture: &OutageFixture) -> Result<Self> {
        Ok(Self {
            port: fixture.warden.webhook_port(),
            path: published_path(fixture).await?,
            connector: connector(&[]),
        })
    }

    async fn connect(&self) -> Result<TlsStream<TcpStream>> {
        // At the limits, the server closes connections of the address that has the most. The API
        // server has another address, as in a cluster.
        let socket = TcpSocket::new_v4()?;
        socket.bind((Ipv4Addr::new(127, 0, 1, 1), 0).into())?;
        let tcp = socket
            .connect((Ipv4Addr::LOCALHOST, self.port).into())
            .await?;
        Ok(self
            .connector
            .connect(ServerName::try_from(SERVICE)?, tcp)
            .await?)
    }

    async fn send_incomplete_review(&self) -> Result<()> {
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

/// The path to which the API server sends the reviews of [`OVERLOADED`].
async fn published_path(fixture: &OutageFixture) -> Result<String> {
    let configurations = configurations(&fixture.cluster.client()).await?;
    let mut webhooks = configurations.iter().flat_map(Configuration::webhooks);
    let overloaded = webhooks.find(|webhook| webhook["name"] == OVERLOADED);
    let path = overloaded.and_then(|webhook| webhook["clientConfig"]["service"]["path"].as_str());
    path.map(str::to_owned).context("no path")
}
