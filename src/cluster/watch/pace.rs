//! Limits how often the watch of a kind begins.

use http::Request;
use kube::{Client, client::Body};
use parking_lot::Mutex;
use std::{sync::Arc, time::Duration};
use tokio::time::Instant;

/// Shortest time between the beginnings of two watches. A watch lasts for minutes. If a proxy ends
/// each one at once without an error, kube's watcher begins the next one without a pause.
const SHORTEST: Duration = Duration::from_secs(1);

/// Returns a client that begins at most one watch a second. Other requests do not wait.
pub(super) fn paced(client: &Client) -> Client {
    let (inner, next) = (client.clone(), Arc::new(Mutex::new(Instant::now())));
    let service = tower::service_fn(move |request: Request<Body>| {
        let (inner, next) = (inner.clone(), next.clone());
        async move {
            if is_watch(&request) {
                tokio::time::sleep_until(turn(&next)).await;
            }
            inner.send(request).await
        }
    });
    Client::new(service, client.default_namespace())
}

/// Returns when the next watch may begin.
fn turn(next: &Mutex<Instant>) -> Instant {
    let mut next = next.lock();
    let begin = Instant::now().max(*next);
    *next = begin + SHORTEST;
    begin
}

fn is_watch(request: &Request<Body>) -> bool {
    let query = request.uri().query().unwrap_or_default();
    query.split('&').any(|pair| pair == "watch=true")
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::StreamExt as _;
    use k8s_openapi::api::core::v1::Pod;
    use kube::{
        Api,
        runtime::{WatchStreamExt as _, watcher},
    };
    use serde_json::json;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[tokio::test(start_paused = true)]
    async fn a_proxy_that_ends_each_watch_at_once_gets_one_a_second() {
        let watches = Arc::new(AtomicUsize::new(0));
        let count = watches.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let watch = is_watch(&request);
            // The test would not end if the watches took no time.
            let ended = watch && count.fetch_add(1, Ordering::SeqCst) > 1000;
            async move {
                if ended {
                    std::future::pending::<()>().await;
                }
                let list = json!({"kind": "PodList", "apiVersion": "v1", "items": [],
                    "metadata": {"resourceVersion": "7"}});
                let body = if watch {
                    String::new()
                } else {
                    list.to_string()
                };
                Ok::<_, std::io::Error>(http::Response::new(Body::from(body.into_bytes())))
            }
        });
        let api: Api<Pod> = Api::all(paced(&Client::new(service, "default")));
        let events = watcher(api, watcher::Config::default()).applied_objects();
        let minute = Duration::from_secs(60);
        let seen = tokio::time::timeout(minute, events.collect::<Vec<_>>()).await;
        assert!(seen.is_err(), "the watch goes on");
        let watches = watches.load(Ordering::SeqCst);
        assert!((50..=61).contains(&watches), "{watches}");
    }
}
