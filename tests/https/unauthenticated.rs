//! Limits of connections that have not sent a known secret path: their number, time and bytes.

use crate::support::*;
use hyper::StatusCode;
use std::net::Ipv4Addr;
use tokio::io::AsyncWriteExt;
use volume_warden::admission::{Limits, PathSecret};

const OTHER: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);

#[tokio::test]
async fn without_a_request_a_connection_is_cut_in_any_state() {
    let (server, trust) = TestServer::start(Limits {
        unauthenticated_timeout: MODERATE,
        trusted_timeout: MODERATE,
        ..UNLIMITED
    })
    .await;
    let mut known = server.client(&trust).await;
    known.review().await;
    let silent = server.tcp().await.expect("connects");
    let idle = server
        .tls(&trust, HTTP1)
        .await
        .expect("completes the TLS handshake");
    let mut slow = server
        .tls(&trust, HTTP1)
        .await
        .expect("completes the TLS handshake");
    let head = head(&server.secret.path("/allow"), 1);
    slow.write_all(&head[..head.len() - 1])
        .await
        .expect("writes");
    wait_for_close(silent).await;
    wait_for_close(idle).await;
    wait_for_close(slow).await;
    assert_eq!(server.ended_as("TimedOut").await, 3);
    // The known connection is older than the closed ones.
    known.review().await;
}

/// On a busy machine, the API server may need more time than other clients have.
#[tokio::test]
async fn a_client_from_a_trusted_address_has_more_time() {
    let (server, trust) = TestServer::start(Limits {
        unauthenticated_timeout: MODERATE,
        ..UNLIMITED
    })
    .await;
    server.client(&trust).await.review().await;
    let mut slow = server.client(&trust).await;
    let other = server.tcp_from(OTHER).await.expect("connects");
    wait_for_close(other).await;
    // This connection is older than the closed one.
    slow.review().await;
}

#[tokio::test]
async fn a_connection_without_the_path_is_closed_after_few_bytes() {
    const BYTES: usize = 4096;
    let (server, trust) = TestServer::start(Limits {
        unauthenticated_bytes: BYTES,
        ..UNLIMITED
    })
    .await;
    // The TLS handshake and the request head of an API server are far smaller than the limit.
    let mut known = server.client(&trust).await;
    known.review().await;
    let mut endless = server
        .tls(&trust, HTTP1)
        .await
        .expect("completes the TLS handshake");
    let head = format!("POST / HTTP/1.1\r\nx: {}", "x".repeat(2 * BYTES));
    endless.write_all(head.as_bytes()).await.expect("writes");
    assert_eq!(read_until_closed(endless).await, "");
    // The limit ends once the client sends the path.
    let answer = known.post("/allow", vec![b' '; 3 * BYTES].into()).await;
    assert_eq!(
        answer.status(),
        StatusCode::BAD_REQUEST,
        "the body was read"
    );
}

#[tokio::test]
async fn a_request_without_a_secret_path_is_answered_404_and_its_body_is_not_read() {
    let (server, trust) = TestServer::start(UNLIMITED).await;
    let other = PathSecret::generate().expect("random numbers");
    for path in ["/", "/allow", "/livez", &other.path("/allow")] {
        let mut tls = server
            .tls(&trust, HTTP1)
            .await
            .expect("completes the TLS handshake");
        tls.write_all(&head(path, 8 << 20)).await.expect("writes");
        let answer = read_until_closed(tls).await;
        assert!(answer.starts_with("HTTP/1.1 404 Not Found\r\n"), "{answer}");
        assert!(answer.contains("\r\nconnection: close\r\n"), "{answer}");
        assert!(answer.contains("\r\ncontent-length: 0\r\n"), "{answer}");
        assert!(answer.ends_with("\r\n\r\n"), "{answer}");
    }
    assert_eq!(server.ended_as("NotFound").await, 4);
}

#[tokio::test]
async fn a_client_with_an_old_secret_is_disconnected() {
    let (server, trust) = TestServer::start(UNLIMITED).await;
    let mut client = server.client(&trust).await;
    client.review().await;
    let answer = client.post("/nothing", review()).await;
    assert_eq!(answer.status(), StatusCode::NOT_FOUND);
    client.review().await;
    let new = PathSecret::generate().expect("random numbers");
    server.paths.accept(vec![new], false);
    let answer = client.post("/allow", review()).await;
    assert_eq!(answer.status(), StatusCode::NOT_FOUND);
    client.closed().await;
}

#[tokio::test]
async fn http2_is_refused() {
    let (server, trust) = TestServer::start(UNLIMITED).await;
    let refused = server
        .tls(&trust, b"h2")
        .await
        .expect_err("is refused by ALPN");
    assert!(
        refused.to_string().contains("NoApplicationProtocol"),
        "{refused}"
    );
    // The same for clients that send HTTP/2 without ALPN.
    let mut tls = server
        .tls(&trust, HTTP1)
        .await
        .expect("completes the TLS handshake");
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    tls.write_all(preface).await.expect("writes");
    let answer = read_until_closed(tls).await;
    assert!(
        answer.is_empty() || answer.starts_with("HTTP/1.1 4"),
        "{answer}"
    );
    server.client(&trust).await.review().await;
}

#[tokio::test]
async fn at_the_limit_the_oldest_connection_of_the_address_with_most_is_closed() {
    let (server, trust) = TestServer::start(Limits {
        unauthenticated: 3,
        ..UNLIMITED
    })
    .await;
    let only_of_its_address = server.tcp_from(OTHER).await.expect("connects");
    let oldest = server.tcp().await.expect("connects");
    let younger = server.tcp().await.expect("connects");
    let youngest = server.tcp().await.expect("connects");
    wait_for_close(oldest).await;
    assert_eq!(server.ended_as("Evicted").await, 1);
    // A review is still answered: a connection with the path counts toward another limit.
    let mut client = server.client(&trust).await;
    client.review().await;
    wait_for_close(younger).await;
    for _ in 0..20 {
        drop(server.tcp().await.expect("connects"));
    }
    client.review().await;
    drop((only_of_its_address, youngest));
}

/// At the limit, a connection without a handshake is closed before one that has completed it,
/// although the latter is older.
#[tokio::test]
async fn a_connection_with_a_handshake_outlasts_a_silent_one() {
    let (server, trust) = TestServer::start(Limits {
        unauthenticated: 3,
        ..UNLIMITED
    })
    .await;
    let mut with_handshake = server.client(&trust).await;
    let silent = server.tcp().await.expect("connects");
    let younger = server.tcp().await.expect("connects");
    let youngest = server.tcp().await.expect("connects");
    wait_for_close(silent).await;
    with_handshake.review().await;
    drop((younger, youngest));
}

/// Clients of 20 addresses open one connection each, as does the client that has sent the path.
#[tokio::test]
async fn a_client_with_the_path_is_served_despite_many_addresses() {
    let (server, trust) = TestServer::start(Limits {
        unauthenticated: 3,
        ..UNLIMITED
    })
    .await;
    server.client(&trust).await.review().await;
    let known = server.tcp().await.expect("connects");
    let mut others = Vec::new();
    for number in 1..=20 {
        let address = Ipv4Addr::new(127, 0, 2, number);
        others.push(server.tcp_from(address).await.expect("connects"));
    }
    // The server has reached its limit when it closes a connection.
    wait_for_close(others.swap_remove(10)).await;
    let tls = server.tls_over(known, &trust, HTTP1).await;
    tls.expect("completes the TLS handshake");
}

/// The default limits, which the other tests replace.
#[test]
fn by_default_connections_without_the_path_have_small_limits() {
    let limits = Limits::default();
    assert!(limits.unauthenticated <= 128, "{limits:?}");
    assert!(
        limits.unauthenticated_timeout.as_secs_f32() <= 1.0,
        "{limits:?}"
    );
    assert!(limits.trusted_timeout.as_secs_f32() <= 10.0, "{limits:?}");
    assert!(limits.unauthenticated_bytes <= 16 * 1024, "{limits:?}");
    assert!(limits.connections <= 512, "{limits:?}");
}
