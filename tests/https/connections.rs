//! Connections with a known secret path.

use crate::support::*;
use tokio::io::AsyncWriteExt;
use volume_warden::admission::Limits;

fn two_connections() -> Limits {
    Limits {
        connections: 2,
        ..UNLIMITED
    }
}

#[tokio::test]
async fn at_the_limit_the_connection_that_is_idle_for_longest_is_closed() {
    let (server, trust) = TestServer::start(two_connections()).await;
    let mut first = server.client(&trust).await;
    first.review().await;
    let mut second = server.client(&trust).await;
    second.review().await;
    first.review().await;
    let mut third = server.client(&trust).await;
    third.review().await;
    second.closed().await;
    first.review().await;
    third.review().await;
}

#[tokio::test]
async fn a_connection_is_refused_while_all_others_have_reviews_in_progress() {
    let (server, trust) = TestServer::start(two_connections()).await;
    let mut in_progress = half_sent_review(&server, &trust).await;
    let _another = half_sent_review(&server, &trust).await;
    let mut refused = server
        .tls(&trust, HTTP1)
        .await
        .expect("completes the TLS handshake");
    let head = head(&server.secret.path("/allow"), review().len());
    refused.write_all(&head).await.expect("writes");
    let answer = read_until_closed(refused).await;
    assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
    in_progress.write_all(&review()).await.expect("writes");
    // A new connection is accepted as soon as one review is answered.
    in_time(async { while !server.answers(&trust).await {} }).await;
}

/// The API server closes the connection after the timeout of the webhook.
#[tokio::test]
async fn a_review_is_abandoned_when_its_client_closes_the_connection() {
    let (server, trust) = TestServer::start(UNLIMITED).await;
    let mut client = server
        .tls(&trust, HTTP1)
        .await
        .expect("completes the TLS handshake");
    let head = head(&server.secret.path("/silent"), review().len());
    let request = [&head[..], &review()].concat();
    client.write_all(&request).await.expect("writes");
    in_time(server.unanswered.notified()).await;
    drop(client);
    let labels = "{path=\"/silent\",verdict=\"Abandoned\"}";
    let counted = format!("volume_warden_admission_reviews_total{labels} 1\n");
    in_time(async {
        while !server.metrics.text().contains(&counted) {
            tokio::task::yield_now().await;
        }
    })
    .await;
}
