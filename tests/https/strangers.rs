//! Connections without a known secret path: few places, little time, few bytes.

use crate::support::*;
use hyper::StatusCode;
use std::net::Ipv4Addr;
use tokio::io::AsyncWriteExt;
use volume_warden::admission::{Limits, PathSecret};

const OTHER: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);

#[tokio::test]
async fn without_a_request_a_connection_is_cut_in_any_state() {
    let (site, trust) = Site::open(Limits {
        stranger_time: MODERATE,
        ..UNLIMITED
    })
    .await;
    let mut known = site.client(&trust).await;
    known.review().await;
    let silent = site.tcp().await.expect("connects");
    let idle = site.tls(&trust, HTTP1).await.expect("shakes hands");
    let mut slow = site.tls(&trust, HTTP1).await.expect("shakes hands");
    let head = head(&site.secret.path("/allow"), 1);
    slow.write_all(&head[..head.len() - 1])
        .await
        .expect("writes");
    cut(silent).await;
    cut(idle).await;
    cut(slow).await;
    assert_eq!(site.ended_as("TimedOut").await, 3);
    // This connection is older than those that were closed.
    known.review().await;
}

#[tokio::test]
async fn few_bytes_are_read_without_the_path() {
    const BYTES: usize = 4096;
    let (site, trust) = Site::open(Limits {
        stranger_bytes: BYTES,
        ..UNLIMITED
    })
    .await;
    // The API server's request head and handshake are far smaller.
    let mut known = site.client(&trust).await;
    known.review().await;
    let mut endless = site.tls(&trust, HTTP1).await.expect("shakes hands");
    let head = format!("POST / HTTP/1.1\r\nx: {}", "x".repeat(2 * BYTES));
    endless.write_all(head.as_bytes()).await.expect("writes");
    assert_eq!(rest(endless).await, "");
    // The limit ends once the client sends the path.
    let answer = known.post("/allow", vec![b' '; 3 * BYTES].into()).await;
    assert_eq!(answer.status(), StatusCode::BAD_REQUEST, "it was read");
}

#[tokio::test]
async fn a_request_without_a_secret_path_is_answered_404_and_its_body_is_not_read() {
    let (site, trust) = Site::open(UNLIMITED).await;
    let other = PathSecret::generate().expect("random numbers");
    for path in ["/", "/allow", "/livez", &other.path("/allow")] {
        let mut tls = site.tls(&trust, HTTP1).await.expect("shakes hands");
        tls.write_all(&head(path, 8 << 20)).await.expect("writes");
        let answer = rest(tls).await;
        assert!(answer.starts_with("HTTP/1.1 404 Not Found\r\n"), "{answer}");
        assert!(answer.contains("\r\nconnection: close\r\n"), "{answer}");
        assert!(answer.contains("\r\ncontent-length: 0\r\n"), "{answer}");
        assert!(answer.ends_with("\r\n\r\n"), "{answer}");
    }
    assert_eq!(site.ended_as("NotFound").await, 4);
}

#[tokio::test]
async fn a_client_with_an_old_secret_is_disconnected() {
    let (site, trust) = Site::open(UNLIMITED).await;
    let mut client = site.client(&trust).await;
    client.review().await;
    let answer = client.post("/nothing", review()).await;
    assert_eq!(answer.status(), StatusCode::NOT_FOUND);
    client.review().await;
    let new = PathSecret::generate().expect("random numbers");
    site.paths.accept(vec![new], false);
    let answer = client.post("/allow", review()).await;
    assert_eq!(answer.status(), StatusCode::NOT_FOUND);
    client.closed().await;
}

#[tokio::test]
async fn http2_is_refused() {
    let (site, trust) = Site::open(UNLIMITED).await;
    let refused = site.tls(&trust, b"h2").await.expect_err("ALPN decides");
    assert!(
        refused.to_string().contains("NoApplicationProtocol"),
        "{refused}"
    );
    // The same for clients that send HTTP/2 without ALPN.
    let mut tls = site.tls(&trust, HTTP1).await.expect("shakes hands");
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    tls.write_all(preface).await.expect("writes");
    let answer = rest(tls).await;
    assert!(
        answer.is_empty() || answer.starts_with("HTTP/1.1 4"),
        "{answer}"
    );
    site.client(&trust).await.review().await;
}

#[tokio::test]
async fn when_places_are_full_the_oldest_of_the_greediest_is_closed() {
    let (site, trust) = Site::open(Limits {
        strangers: 3,
        ..UNLIMITED
    })
    .await;
    let lonely = site.tcp_from(OTHER).await.expect("connects");
    let oldest = site.tcp().await.expect("connects");
    let younger = site.tcp().await.expect("connects");
    let youngest = site.tcp().await.expect("connects");
    cut(oldest).await;
    assert_eq!(site.ended_as("Evicted").await, 1);
    // A review is still answered, on a connection that has a place of another kind.
    let mut client = site.client(&trust).await;
    client.review().await;
    cut(younger).await;
    for _ in 0..20 {
        drop(site.tcp().await.expect("connects"));
    }
    client.review().await;
    drop((lonely, youngest));
}

/// The connection that has begun a handshake is the oldest one of its address.
#[tokio::test]
async fn a_begun_handshake_outlasts_a_silent_connection() {
    let (site, trust) = Site::open(Limits {
        strangers: 3,
        ..UNLIMITED
    })
    .await;
    let mut begun = site.client(&trust).await;
    let silent = site.tcp().await.expect("connects");
    let younger = site.tcp().await.expect("connects");
    let youngest = site.tcp().await.expect("connects");
    cut(silent).await;
    begun.review().await;
    drop((younger, youngest));
}

/// Many addresses connect, each with as few connections as the known one.
#[tokio::test]
async fn a_client_with_the_path_is_served_despite_many_addresses() {
    let (site, trust) = Site::open(Limits {
        strangers: 3,
        ..UNLIMITED
    })
    .await;
    site.client(&trust).await.review().await;
    let known = site.tcp().await.expect("connects");
    let mut others = Vec::new();
    for number in 1..=20 {
        let address = Ipv4Addr::new(127, 0, 2, number);
        others.push(site.tcp_from(address).await.expect("connects"));
    }
    // The server has accepted enough of them to fill all places.
    cut(others.swap_remove(10)).await;
    let tls = site.tls_over(known, &trust, HTTP1).await;
    tls.expect("shakes hands");
}

/// Checks the defaults that the other tests override.
#[test]
fn by_default_connections_without_the_path_have_small_limits() {
    let limits = Limits::default();
    assert!(limits.strangers <= 128, "{limits:?}");
    assert!(limits.stranger_time.as_secs_f32() <= 1.0, "{limits:?}");
    assert!(limits.stranger_bytes <= 16 * 1024, "{limits:?}");
    assert!(limits.connections <= 512, "{limits:?}");
}
