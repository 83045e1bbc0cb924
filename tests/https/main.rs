//! The HTTPS server against real clients over real TLS, without a control plane.
//!
//! A test of one limit sets the others out of reach, so that no other limit can have closed the
//! connection.

mod clients;
mod connections;
mod metrics;
mod strangers;
mod support;

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
    let (site, trust) = Site::open(UNLIMITED).await;
    let mut client = site.client(&trust).await;
    for _ in 0..5 {
        assert!(!client.review().await.headers().contains_key(CONNECTION));
    }
}

#[tokio::test]
async fn an_idle_connection_is_cut() {
    let (site, trust) = Site::open(Limits {
        idle: MODERATE,
        ..UNLIMITED
    })
    .await;
    let mut client = site.client(&trust).await;
    client.review().await;
    client.review().await;
    client.closed().await;
}

#[tokio::test]
async fn a_lame_duck_answers_and_asks_to_close() {
    let (site, trust) = Site::open(Limits {
        lame_duck: MODERATE,
        ..UNLIMITED
    })
    .await;
    let mut old = site.client(&trust).await;
    old.review().await;
    site.stop.cancel();
    let closes = |answer: Response<Bytes>| {
        let header = answer.headers().get(CONNECTION).cloned();
        header.is_some_and(|value| value == "close")
    };
    // The server does not observe the cancellation at once.
    soon(async { while !closes(site.client(&trust).await.review().await) {} }).await;
    assert!(closes(old.review().await), "an old connection too");
    old.closed().await;
    soon(site.ended).await.expect("ends");
    let refused = TcpStream::connect(site.address).await.expect_err("closed");
    assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
}

#[tokio::test]
async fn a_review_under_way_at_the_end_gets_its_answer() {
    let (site, trust) = Site::open(UNLIMITED).await;
    let mut under_way = half_sent_review(&site, &trust).await;
    let idle = site.client(&trust).await;
    site.stop.cancel();
    idle.closed().await;
    soon(async { while TcpStream::connect(site.address).await.is_ok() {} }).await;
    assert!(!site.ended.is_finished(), "a review is under way");
    under_way.write_all(&review()).await.expect("writes");
    let mut answer = String::new();
    soon(under_way.read_to_string(&mut answer))
        .await
        .expect("reads");
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    assert!(answer.contains("connection: close\r\n"), "{answer}");
    soon(site.ended).await.expect("ends");
}

#[tokio::test]
async fn the_drain_has_an_end() {
    let (site, trust) = Site::open(Limits {
        drain: SHORT,
        ..UNLIMITED
    })
    .await;
    let _never_finished = half_sent_review(&site, &trust).await;
    site.stop.cancel();
    soon(site.ended).await.expect("ends");
}

#[tokio::test]
async fn a_new_certificate_is_for_new_connections() {
    let (site, before) = Site::open(UNLIMITED).await;
    let mut old = site.client(&before).await;
    old.review().await;
    let after = site.renew().await;
    site.client(&after).await.review().await;
    assert!(site.tls(&before, HTTP1).await.is_err(), "it has gone");
    old.review().await;
}

#[tokio::test]
async fn without_a_certificate_connections_are_closed() {
    let site = Site::without_certificate(UNLIMITED).await;
    cut(site.tcp().await.expect("connects")).await;
    let trust = site.renew().await;
    site.client(&trust).await.review().await;
}

#[tokio::test]
async fn what_is_no_tls_is_cut() {
    let (site, trust) = Site::open(UNLIMITED).await;
    for garbage in [&b"POST /allow HTTP/1.1\r\n\r\n"[..], &[0; 64], &[0xff; 64]] {
        let mut tcp = site.tcp().await.expect("connects");
        tcp.write_all(garbage).await.expect("writes");
        cut(tcp).await;
    }
    site.client(&trust).await.review().await;
}

#[tokio::test]
async fn a_body_that_is_too_large_is_refused_unread() {
    let (site, trust) = Site::open(UNLIMITED).await;
    let mut tls = site.tls(&trust, HTTP1).await.expect("shakes hands");
    let head = head(&site.secret.path("/allow"), (8 << 20) + 1);
    tls.write_all(&head).await.expect("writes");
    let answer = rest(tls).await;
    assert!(answer.starts_with("HTTP/1.1 413 "), "{answer}");
    site.client(&trust).await.review().await;
}

#[tokio::test]
async fn a_panic_is_a_failed_call_and_nothing_else_ends() {
    let (site, trust) = Site::open(UNLIMITED).await;
    let mut client = site.client(&trust).await;
    let answer = client.post("/panic", review()).await;
    assert_eq!(answer.status(), StatusCode::SERVICE_UNAVAILABLE);
    client.review().await;
    site.client(&trust).await.review().await;
}
