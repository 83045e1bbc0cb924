//! The API server decides who may read metrics. The component of this test has no webhooks; a
//! certificate is created all the same.

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
    let began = cluster.audit().mark()?;
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

    answers(&warden, None, 401).await?;
    answers(&warden, Some("junk"), 401).await?;
    answers(&warden, Some(&token), 403).await?;
    bind(&cluster).await?;
    // The refusal is cached for a while.
    eventually("the scraper may read them", async || {
        answers(&warden, Some(&token), 200).await
    })
    .await?;
    ensure!(warden.metrics().await.is_err(), "in clear text");
    ensure!(warden.ready().await, "the probes ask elsewhere");
    let role = ("ClusterRole", "volume-warden-metrics-authorization");
    let calls = cluster.audit().since(began)?;
    role_is_used(&cluster, &calls, NAMESPACE, "volume-warden", role).await
}

async fn bind(cluster: &Cluster) -> Result<()> {
    let role = "--clusterrole=volume-warden-metrics-reader";
    let account = format!("--serviceaccount={ACCOUNT}");
    let bind = ["create", "clusterrolebinding", "scraper", role, &account];
    cluster.kubectl(&bind).await.map(drop)
}

async fn answers(warden: &Warden, token: Option<&str>, expected: u16) -> Result<()> {
    let tcp = TcpStream::connect(("127.0.0.1", warden.metrics_port())).await?;
    let name = ServerName::try_from("volume-warden.volume-warden.svc")?;
    let mut tls = connector(&[]).connect(name, tcp).await?;
    let token = token.map(|token| format!("authorization: Bearer {token}\r\n"));
    let request = format!(
        "GET /metrics HTTP/1.1\r\nhost: x\r\n{}\r\n",
        token.unwrap_or_default()
    );
    tls.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    // The server closes the connection without a TLS close_notify.
    let _ = tls.read_to_string(&mut answer).await;
    let status = answer.split_whitespace().nth(1).context("no answer")?;
    ensure!(status == expected.to_string(), "{answer}");
    ensure!(answer.contains("volume_warden_build_info") == (expected == 200));
    Ok(())
}
