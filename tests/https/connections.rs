//! Connections with a known secret path.

use crate::support::*;
use tokio::io::AsyncWriteExt;
use volume_warden::admission::Limits;

fn two() -> Limits {
    Limits {
        connections: 2,
        ..UNLIMITED
    }
}

#[tokio::test]
async fn one_more_closes_the_one_that_is_idle_for_longest() {
    let (site, trust) = Site::open(two()).await;
    let mut first = site.client(&trust).await;
    first.review().await;
    let mut second = site.client(&trust).await;
    second.review().await;
    first.review().await;
    let mut third = site.client(&trust).await;
    third.review().await;
    second.closed().await;
    first.review().await;
    third.review().await;
}

#[tokio::test]
async fn one_more_is_refused_at_once_while_all_have_reviews_under_way() {
    let (site, trust) = Site::open(two()).await;
    let mut under_way = half_sent_review(&site, &trust).await;
    let _another = half_sent_review(&site, &trust).await;
    let mut refused = site.tls(&trust, HTTP1).await.expect("shakes hands");
    let head = head(&site.secret.path("/allow"), review().len());
    refused.write_all(&head).await.expect("writes");
    let answer = rest(refused).await;
    assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
    under_way.write_all(&review()).await.expect("writes");
    // A place is free as soon as a review is answered.
    soon(async { while !site.answers(&trust).await {} }).await;
}

/// An API server closes the connection when the timeout of the webhook is over.
#[tokio::test]
async fn a_review_is_abandoned_when_its_client_closes_the_connection() {
    let (site, trust) = Site::open(UNLIMITED).await;
    let mut client = site.tls(&trust, HTTP1).await.expect("shakes hands");
    let head = head(&site.secret.path("/silent"), review().len());
    let request = [&head[..], &review()].concat();
    client.write_all(&request).await.expect("writes");
    soon(site.unanswered.notified()).await;
    drop(client);
    let labels = "{path=\"/silent\",verdict=\"Abandoned\"}";
    let counted = format!("volume_warden_admission_reviews_total{labels} 1\n");
    soon(async {
        while !site.metrics.text().contains(&counted) {
            tokio::task::yield_now().await;
        }
    })
    .await;
}
