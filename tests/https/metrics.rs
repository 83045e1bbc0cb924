//! The metrics port.

use crate::support::*;
use rustls::ClientConfig;
use std::{
    net::{Ipv4Addr, SocketAddr},
    sync::Arc,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};
use volume_warden::telemetry::{
    Metrics,
    health::{self, Authorization, TokenDecision},
};

struct MetricsServer {
    address: SocketAddr,
    task: JoinHandle<()>,
}

impl Drop for MetricsServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl MetricsServer {
    async fn start(authorization: Option<Authorization>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("listens");
        let address = listener.local_addr().expect("an address");
        let (metrics, not_ready_reasons) = (Arc::new(Metrics::new()), Arc::new(Vec::new));
        let serve = health::serve_metrics(listener, metrics, not_ready_reasons, authorization);
        let task = tokio::spawn(serve);
        Self { address, task }
    }

    async fn tcp(&self) -> TcpStream {
        self.tcp_from(LOCALHOST).await
    }

    async fn tcp_from(&self, address: Ipv4Addr) -> TcpStream {
        connect_from(address, self.address).await.expect("connects")
    }
}

async fn get<S>(mut stream: S, path: &str, headers: &str) -> String
where
    S: AsyncReadExt + AsyncWriteExt + Unpin,
{
    let request = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n{headers}\r\n");
    let written = stream.write_all(request.as_bytes()).await;
    written.expect("writes");
    read_until_closed(stream).await
}

#[tokio::test]
async fn idle_connections_do_not_block_scrapes() {
    let metrics_server = MetricsServer::start(None).await;
    let mut idle = Vec::new();
    for _ in 0..200 {
        idle.push(metrics_server.tcp().await);
    }
    for path in ["/metrics", "/livez", "/readyz"] {
        let answer = get(metrics_server.tcp().await, path, "").await;
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    }
    // The server closed the first connections.
    wait_for_close(idle.swap_remove(0)).await;
}

/// Clients of 200 addresses open one connection each, as does the client that scrapes.
#[tokio::test]
async fn a_known_address_is_served_despite_many_addresses() {
    let metrics_server = MetricsServer::start(None).await;
    let scrape = get(metrics_server.tcp().await, "/metrics", "").await;
    assert!(scrape.ends_with("# EOF\n"), "{scrape}");
    let mut scraper = metrics_server.tcp().await;
    let mut others = Vec::new();
    for number in 1..=200 {
        others.push(
            metrics_server
                .tcp_from(Ipv4Addr::new(127, 0, 2, number))
                .await,
        );
    }
    // The server has reached its limit when it closes a connection.
    wait_for_close(others.swap_remove(100)).await;
    let answer = get(&mut scraper, "/metrics", "").await;
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
}

#[tokio::test]
async fn a_connection_is_closed_after_its_answer_or_without_a_request() {
    let metrics_server = MetricsServer::start(None).await;
    let silent = metrics_server.tcp().await;
    let answer = get(metrics_server.tcp().await, "/metrics", "").await;
    assert!(answer.ends_with("# EOF\n"), "{answer}");
    wait_for_close(silent).await;
}

async fn https(
    metrics_server: &MetricsServer,
    server: &TestServer,
    trust: &ClientConfig,
    headers: &str,
) -> String {
    let tls = server
        .tls_over(metrics_server.tcp().await, trust, HTTP1)
        .await;
    get(
        tls.expect("completes the TLS handshake"),
        "/metrics",
        headers,
    )
    .await
}

#[tokio::test]
async fn with_authorization_metrics_require_permission_and_tls() {
    let (server, trust) = TestServer::start(UNLIMITED).await;
    let authorize = |token: String| match &*token {
        "good" => TokenDecision::Allowed,
        "other" => TokenDecision::Forbidden,
        "late" => TokenDecision::Unavailable,
        _ => TokenDecision::Unauthenticated,
    };
    let metrics_server = MetricsServer::start(Some(Authorization {
        certificate: server.serving.certificate_for_all.clone(),
        authorize: Arc::new(move |token| Box::pin(async move { authorize(token) })),
    }))
    .await;
    for (headers, status) in [
        ("authorization: Bearer good\r\n", "200 OK"),
        ("authorization: Bearer other\r\n", "403 Forbidden"),
        ("authorization: Bearer junk\r\n", "401 Unauthorized"),
        ("authorization: Bearer late\r\n", "503 Service Unavailable"),
        ("authorization: Basic good\r\n", "401 Unauthorized"),
        ("", "401 Unauthorized"),
    ] {
        let answer = https(&metrics_server, &server, &trust, headers).await;
        let begins = format!("HTTP/1.1 {status}\r\n");
        assert!(answer.starts_with(&begins), "{headers}: {answer}");
        assert_eq!(answer.contains("volume_warden_"), status == "200 OK");
    }
    let clear = get(metrics_server.tcp().await, "/metrics", "").await;
    assert!(!clear.contains("HTTP/1.1 200"), "{clear}");
    let tls = server
        .tls_over(metrics_server.tcp().await, &trust, HTTP1)
        .await;
    let probe = get(tls.expect("completes the TLS handshake"), "/livez", "").await;
    assert!(probe.starts_with("HTTP/1.1 200 OK\r\n"), "{probe}");
}
