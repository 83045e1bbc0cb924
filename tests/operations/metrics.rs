//! The API server authorizes scrapes of the metrics. The component of this test has no webhooks; a
//! certificate is created nevertheless.

use crate::{
    fresh,
    support::{
        BINARY, deployment,
        granted::role_is_used,
        kustomization::{Kustomization, NAMESPACE},
        manifests,
        outsiders::connector,
    },
};
use anyhow::{Context, Result, ensure};
use rustls::pki_types::ServerName;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};
use volume_warden_controlplane::{Cluster, Warden, eventually};

const COMPONENTS: [&str; 3] = ["self-signed", "namespace-gc", "metrics-authorization"];
const ACCOUNT: &str = "default:scraper";

#[tokio::test]
async fn metrics_require_a_token_that_may_get_them() -> Result<()> {
    let kustomization = Kustomization::of(&COMPONENTS, NAMESPACE)?;
    let cluster = fresh::api_server().await?;
    let mark = cluster.audit().mark()?;
    manifests::apply(&cluster, kustomization.path()).await?;
    let mut warden = Warden::builder(&cluster, BINARY);
    for argument in deployment::arguments(&cluster, NAMESPACE).await? {
        warden = warden.arg(argument);
    }
    let warden = warden.start().await?;
    cluster
        .kubectl(&["create", "serviceaccount", "scraper"])
        .await?;
    let token = cluster.kubectl(&["create", "token", "scraper"]).await?;

    for (token, expected) in [(None, 401), (Some("junk"), 401), (Some(&*token), 403)] {
        let response = eventually("the API server authorizes the scrape in time", async || {
            let response = scrape(&warden, token).await?;
            ensure!(response.0 != 503, "{response:?}");
            Ok(Some(response))
        });
        check_response(&response.await?, expected)?;
    }
    bind(&cluster).await?;
    // Volume Warden caches the refusal for some time.
    eventually("the scraper may read the metrics", async || {
        check_response(&scrape(&warden, Some(&token)).await?, 200)
    })
    .await?;
    ensure!(
        warden.metrics().await.is_err(),
        "metrics were served without TLS"
    );
    ensure!(warden.ready().await?, "the probe requires a token");
    let role = ("ClusterRole", "volume-warden-metrics-authorization");
    let calls = cluster.audit().since(mark)?;
    role_is_used(&cluster, &calls, NAMESPACE, "volume-warden", role).await
}

async fn bind(cluster: &Cluster) -> Result<()> {
    let role = "--clusterrole=volume-warden-metrics-reader";
    let account = format!("--serviceaccount={ACCOUNT}");
    let bind = ["create", "clusterrolebinding", "scraper", role, &account];
    cluster.kubectl(&bind).await.map(drop)
}

/// Requests the metrics, and returns the status and the whole response.
async fn scrape(warden: &Warden, token: Option<&str>) -> Result<(u16, String)> {
    let tcp = TcpStream::connect(("127.0.0.1", warden.metrics_port())).await?;
    let name = ServerName::try_from("volume-warden.volume-warden.svc")?;
    let mut tls = connector(&[]).connect(name, tcp).await?;
    let token = token.map(|token| format!("authorization: Bearer {token}\r\n"));
    let request = format!(
        "GET /metrics HTTP/1.1\r\nhost: x\r\n{}\r\n",
        token.unwrap_or_default()
    );
    tls.write_all(request.as_bytes()).await?;
    let mut response = String::new();
    // The server closes the connection without a TLS close_notify.
    let _ = tls.read_to_string(&mut response).await;
    let status = response.split_whitespace().nth(1).context("no response")?;
    Ok((status.parse()?, response))
}

/// Checks the status, and that only a response with the status 200 contains metrics.
fn check_response((status, response): &(u16, String), expected: u16) -> Result<()> {
    ensure!(*status == expected, "{response}");
    ensure!(response.contains("volume_warden_build_info") == (expected == 200));
    Ok(())
}
