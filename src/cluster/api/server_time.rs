//! The time by the clock of the API server.

use super::{client::within, latest_time::date};
use k8s_openapi::jiff::Timestamp;
use kube::{Client, client::Body};
use std::time::Duration;

/// Returns the time of the API server, from the header `Date` of its answer, in whole seconds. It
/// is for times that are recorded on objects and that another replica, on a node whose clock may
/// differ, compares with the current time much later.
///
/// # Errors
/// When the API server did not answer within `limit`, or its answer has no readable date.
pub async fn server_time(client: &Client, limit: Duration) -> kube::Result<Timestamp> {
    let request = http::Request::get("/version").body(Body::empty());
    let request = request.map_err(kube::Error::HttpError)?;
    let answer = within(limit, client.send(request)).await?;
    date(answer.headers())
        .ok_or_else(|| kube::Error::Service("the answer of the API server has no date".into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn answered(date: Option<&'static str>) -> kube::Result<String> {
        let service = tower::service_fn(move |_: http::Request<Body>| {
            let response = http::Response::builder();
            let response = match date {
                Some(date) => response.header(http::header::DATE, date),
                None => response,
            };
            let response = response.body(Body::empty()).expect("a response");
            std::future::ready(Ok::<_, std::io::Error>(response))
        });
        let client = Client::new(service, "default");
        let time = server_time(&client, Duration::from_secs(1)).await;
        time.map(|time| time.to_string())
    }

    #[tokio::test]
    async fn only_a_readable_date_is_a_time() {
        let date = answered(Some("Tue, 24 Nov 2026 06:52:01 GMT")).await;
        assert_eq!(date.expect("a time"), "2026-11-24T06:52:01Z");
        for other in [None, Some("yesterday"), Some("")] {
            assert!(answered(other).await.is_err(), "{other:?}");
        }
    }
}
