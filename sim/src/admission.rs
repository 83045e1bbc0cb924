//! Delivers admission reviews to a replica that is ready, as the Service of Volume Warden does.

use crate::{
    cluster::Cluster,
    conditions,
    connection::Connection,
    faults::Fate,
    json::{at, text},
    manifests,
    random::digest,
    repeat::repeat,
};
use axum::Router;
use bytes::Bytes;
use futures::future::BoxFuture;
use http::Request;
use http_body_util::BodyExt;
use parking_lot::Mutex;
use serde_json::Value;
use std::{
    pin::pin,
    sync::{Arc, OnceLock, Weak},
    time::Duration,
};
use tower::ServiceExt;
use volume_warden_apiserver_model::{Admission, WebhookCall};

/// Returns why a replica is not ready; empty if it is.
pub type Missing = Arc<dyn Fn() -> Vec<String> + Send + Sync>;

/// A replica that may answer reviews.
#[derive(Clone)]
pub struct Endpoint {
    /// The webhooks of the replica.
    pub router: Router,
    /// Returns why the replica is not ready; empty if it is.
    pub missing: Missing,
    /// The network of the replica's process. A replica whose network is cut is not called.
    pub connection: Arc<Connection>,
}

/// Delivers reviews from the API server to the replicas.
#[derive(Default)]
pub struct Reviews {
    cluster: OnceLock<Weak<Cluster>>,
    endpoints: Mutex<Vec<Endpoint>>,
    count: Mutex<u64>,
}

impl Reviews {
    /// Connects the reviews to the cluster, which is created later.
    pub fn connect(&self, cluster: &Arc<Cluster>) {
        // The simulation calls this once; a second call would have no effect.
        let _ = self.cluster.set(Arc::downgrade(cluster));
    }

    /// Adds a replica.
    pub fn add(&self, endpoint: Endpoint) {
        self.endpoints.lock().push(endpoint);
    }

    /// Chooses a replica that is ready.
    fn choose(&self, chance: u64) -> Option<Endpoint> {
        let endpoints = self.endpoints.lock();
        let ready = |each: &&Endpoint| !each.connection.is_cut() && (each.missing)().is_empty();
        let ready: Vec<&Endpoint> = endpoints.iter().filter(ready).collect();
        let chosen = usize::try_from(chance)
            .unwrap_or_default()
            .checked_rem(ready.len())?;
        ready.get(chosen).map(|chosen| (*chosen).clone())
    }

    fn number(&self) -> u64 {
        let mut count = self.count.lock();
        *count += 1;
        *count
    }

    async fn deliver(
        &self,
        cluster: &Arc<Cluster>,
        call: &WebhookCall<'_>,
    ) -> Result<Value, String> {
        let key = ("review", call.webhook, self.number());
        let now = cluster.schedule.now();
        let passage = cluster.faults.passage(cluster.seed, now, key);
        let endpoint = self
            .choose(digest((cluster.seed, key)))
            .ok_or("connection refused")?;
        cluster.schedule.turn(passage.request, passage.order).await;
        if passage.fate != Fate::Delivered {
            return Err("the connection broke".into());
        }
        let uri = format!(
            "{}?timeout={}s",
            manifests::path(call.webhook),
            call.timeout.as_secs()
        );
        let body = Bytes::from(serde_json::to_vec(call.review).unwrap_or_default());
        endpoint
            .connection
            .resumed(&cluster.schedule, passage.order)
            .await;
        let answer = in_time(cluster, call, review(&endpoint.router, &uri, body)).await?;
        let chance = digest((cluster.seed, "again", key));
        repeat(cluster, &endpoint, &uri, call, now, (chance, &answer));
        cluster.schedule.turn(passage.answer, passage.order).await;
        if endpoint.connection.is_cut() {
            return Err("the connection broke".into());
        }
        cluster
            .checks
            .reviewed(now, cluster.schedule.now(), call, &answer);
        Ok(answer)
    }
}

/// Tolerance for rounding: each of several consecutive time limits is in full milliseconds.
const ROUNDING: Duration = Duration::from_millis(10);

/// Waits for the answer to a review. S10: a replica answers within half of the time that the API
/// server waits, even if the replica's own requests get no answer. The other half is left for the
/// transfer of the answer.
async fn in_time(
    cluster: &Cluster,
    call: &WebhookCall<'_>,
    answer: impl Future<Output = Result<Value, String>>,
) -> Result<Value, String> {
    let mut answer = pin!(answer);
    let limit = call.timeout / 2 + ROUNDING;
    match tokio::time::timeout(limit, &mut answer).await {
        Ok(answer) => answer,
        Err(_) => {
            let message = format!("{} did not answer within half of its time", call.webhook);
            let now = cluster.schedule.now();
            cluster.checks.add("S10", now, message);
            answer.await
        }
    }
}

/// Sends one review to a router.
///
/// # Errors
/// When the answer is not an AdmissionReview.
pub async fn review(router: &Router, uri: &str, body: Bytes) -> Result<Value, String> {
    let request = Request::post(uri).header("content-type", "application/json");
    let request = request
        .body(axum::body::Body::from(body))
        .map_err(|error| error.to_string())?;
    let response = match router.clone().oneshot(request).await {
        Ok(response) => response,
        Err(never) => match never {},
    };
    let status = response.status();
    let body = response
        .into_body()
        .collect()
        .await
        .map_err(|error| error.to_string())?;
    if !status.is_success() {
        return Err(format!(
            "{status}: {}",
            String::from_utf8_lossy(&body.to_bytes())
        ));
    }
    serde_json::from_slice(&body.to_bytes()).map_err(|error| error.to_string())
}

impl Admission for Reviews {
    fn review<'a>(&'a self, call: WebhookCall<'a>) -> BoxFuture<'a, Result<Value, String>> {
        Box::pin(async move {
            let Some(cluster) = self.cluster.get().and_then(Weak::upgrade) else {
                return Err("no cluster".into());
            };
            let delivered = tokio::time::timeout(call.timeout, self.deliver(&cluster, &call)).await;
            let answer = delivered.unwrap_or_else(|_| Err("context deadline exceeded".into()));
            let said = match &answer {
                Ok(answer) => match at(answer, "/response/allowed") {
                    Some(Value::Bool(true)) if at(answer, "/response/patch").is_some() => "patched",
                    Some(Value::Bool(true)) => "allowed",
                    _ => "denied",
                },
                Err(_) => "failed",
            };
            let name = text(call.review, "/request/name");
            cluster
                .trace
                .record(cluster.schedule.now(), (call.webhook, said), || {
                    let why = answer
                        .as_ref()
                        .err()
                        .map_or_else(String::new, |error| format!(": {error}"));
                    format!("    review {} of {name} {said}{why}", call.webhook)
                });
            answer
        })
    }

    fn condition(&self, expression: &str, request: &Value) -> Option<bool> {
        conditions::holds(expression, request)
    }
}
