//! The HTTPS server against real clients over real TLS, without a control plane.
//!
//! A test of one limit disables all others, so that no other limit can close the connection.

mod clients;
mod connections;
mod metrics;
mod support;
mod unauthenticated;

use hyper::{Response, StatusCode, body::Bytes, header::CONNECTION};
use std::io;
use support::*;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};
use volume_warden::admission::Limits;

#[tokio::test]
async fn one_http1_connection_carries_many_reviews() {
    let (server, trust) = TestServer::start(UNLIMITED).await;
    let mut client = server.client(&trust).await;
    for _ in 0..5 {
        assert!(!client.review().await.headers().contains_key(CONNECTION));
    }
}

#[tokio::test]
async fn an_idle_connection_is_closed() {
    let (server, trust) = TestServer::start(Limits {
        idle: MODERATE,
        ..UNLIMITED
    })
    .await;
    let mut client = server.client(&trust).await;
    client.review().await;
    client.review().await;
    client.closed().await;
}

#[tokio::test]
async fn a_lame_duck_answers_and_asks_to_close() {
    let (server, trust) = TestServer::start(Limits {
        lame_duck: MODERATE,
        ..UNLIMITED
    })
    .await;
    let mut old = server.client(&trust).await;
    old.review().await;
    server.stop.cancel();
    let has_connection_close = |answer: Response<Bytes>| {
        let header = answer.headers().get(CONNECTION).cloned();
        header.is_some_and(|value| value == "close")
    };
    // The server does not observe the cancellation at once.
    in_time(async { while !has_connection_close(server.client(&trust).await.review().await) {} })
        .await;
    assert!(
        has_connection_close(old.review().await),
        "also on an old connection"
    );
    old.closed().await;
    in_time(server.ended).await.expect("ends");
    let refused = TcpStream::connect(server.address)
        .await
        .expect_err("closed");
    assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
}

#[tokio::test]
async fn a_review_under_way_at_the_end_gets_its_answer() {
    let (server, trust) = TestServer::start(UNLIMITED).await;
    let mut in_progress = half_sent_review(&server, &trust).await;
    let mut idle = server.client(&trust).await;
    idle.review().await;
    server.stop.cancel();
    idle.closed().await;
    in_time(async { while TcpStream::connect(server.address).await.is_ok() {} }).await;
    assert!(!server.ended.is_finished(), "a review is in progress");
    in_progress.write_all(&review()).await.expect("writes");
    let mut answer = String::new();
    in_time(in_progress.read_to_string(&mut answer))
        .await
        .expect("reads");
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    assert!(answer.contains("connection: close\r\n"), "{answer}");
    in_time(server.ended).await.expect("ends");
}

/// The API server has connected just before the server stops, and sends its review later.
#[tokio::test]
async fn a_connection_of_the_last_moment_gets_its_answer() {
    let (server, trust) = TestServer::start(UNLIMITED).await;
    let mut late = server.client(&trust).await;
    server.stop.cancel();
    in_time(async { while TcpStream::connect(server.address).await.is_ok() {} }).await;
    late.review().await;
    late.closed().await;
    in_time(server.ended).await.expect("ends");
}

#[tokio::test]
async fn the_drain_has_an_end() {
    let (server, trust) = TestServer::start(Limits {
        drain: SHORT,
        ..UNLIMITED
    })
    .await;
    let _never_finished = half_sent_review(&server, &trust).await;
    server.stop.cancel();
    in_time(server.ended).await.expect("ends");
}

#[tokio::test]
async fn a_new_certificate_is_for_new_connections() {
    let (server, before) = TestServer::start(UNLIMITED).await;
    let mut old = server.client(&before).await;
    old.review().await;
    let after = server.renew().await;
    server.client(&after).await.review().await;
    assert!(
        server.tls(&before, HTTP1).await.is_err(),
        "the old certificate is no longer served"
    );
    old.review().await;
}

#[tokio::test]
async fn without_a_certificate_connections_are_closed() {
    let server = TestServer::without_certificate(UNLIMITED).await;
    wait_for_close(server.tcp().await.expect("connects")).await;
    let trust = server.renew().await;
    server.client(&trust).await.review().await;
}

#[tokio::test]
async fn connections_without_tls_are_closed() {
    let (server, trust) = TestServer::start(UNLIMITED).await;
    for garbage in [&b"POST /allow HTTP/1.1\r\n\r\n"[..], &[0; 64], &[0xff; 64]] {
        let mut tcp = server.tcp().await.expect("connects");
        tcp.write_all(garbage).await.expect("writes");
        wait_for_close(tcp).await;
    }
    server.client(&trust).await.review().await;
}

#[tokio::test]
async fn a_body_that_is_too_large_is_refused_unread() {
    let (server, trust) = TestServer::start(UNLIMITED).await;
    let mut tls = server
        .tls(&trust, HTTP1)
        .await
        .expect("completes the TLS handshake");
    let head = head(&server.secret.path("/allow"), (8 << 20) + 1);
    tls.write_all(&head).await.expect("writes");
    let answer = read_until_closed(tls).await;
    assert!(answer.starts_with("HTTP/1.1 413 "), "{answer}");
    server.client(&trust).await.review().await;
}

#[tokio::test]
async fn a_panic_is_a_failed_call_and_nothing_else_ends() {
    let (server, trust) = TestServer::start(UNLIMITED).await;
    let mut client = server.client(&trust).await;
    let answer = client.post("/panic", review()).await;
    assert_eq!(answer.status(), StatusCode::SERVICE_UNAVAILABLE);
    client.review().await;
    server.client(&trust).await.review().await;
}
