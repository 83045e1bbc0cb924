//! The network between a client and the API server: each message waits for its turn, and may be
//! delayed, refused or lost.

use crate::{
    checks::Listing,
    cluster::Cluster,
    connection::Connection,
    faults::{Fate, Passage},
    random::digest,
    watches,
};
use bytes::Bytes;
use futures::future::BoxFuture;
use http::{Request, Response};
use http_body_util::{BodyExt, Full, combinators::UnsyncBoxBody};
use kube::client::Body;
use std::{
    io,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};
use tokio::sync::oneshot;
use volume_warden_apiserver_model::User;

/// The body of an answer.
pub type Reply = UnsyncBoxBody<Bytes, io::Error>;

/// The connection of one client to the API server.
#[derive(Clone)]
pub struct Wire {
    /// The cluster.
    pub cluster: Arc<Cluster>,
    /// The user as which the API server sees the client.
    pub user: Arc<User>,
    /// The name of the client in the printed transcript.
    pub client: Arc<str>,
    /// The connections of the client's process.
    pub connection: Arc<Connection>,
}

impl Wire {
    /// Sends a request and waits for the answer, which may never arrive.
    pub async fn send(&self, request: Request<Bytes>) -> io::Result<Response<Reply>> {
        let _listing = Listing::begin(&self.cluster, &self.client, &request);
        let (sender, answer) = oneshot::channel();
        let (wire, request) = (self.clone(), request);
        // A request that was sent takes effect even if its client no longer waits for it.
        tokio::spawn(async move {
            let counts = !is_watch(&request) && !is_election(&request);
            let activity = &wire.cluster.activity;
            counts.then(|| activity.begin());
            let answered = wire.deliver(request).await;
            counts.then(|| activity.end(wire.cluster.schedule.now()));
            if let Some(answered) = answered
                && !wire.connection.is_cut()
            {
                // A client that no longer waits needs no answer.
                let _ = sender.send(answered);
            } else {
                // The answer never arrives: the client needs a time limit.
                std::future::pending::<()>().await;
            }
        });
        answer.await.unwrap_or_else(|_| Err(broken()))
    }

    async fn deliver(&self, request: Request<Bytes>) -> Option<io::Result<Response<Reply>>> {
        if self.connection.is_cut() {
            return None;
        }
        let (cluster, schedule) = (&self.cluster, &self.cluster.schedule);
        let (identity, summary) = (identity(&request), summary(&request));
        let (number, crash) = self.connection.count(identity, !is_election(&request));
        let now = schedule.now();
        let key = (&*self.client, identity, number);
        let passage = cluster.faults.passage(cluster.seed, now, key);
        let write = cluster.checks.sent(&self.client, now, &request);
        if crash == Some(false) {
            self.crash(&summary);
            return None;
        }
        self.turn(passage.request, passage).await;
        let answered = self.effect(request, passage, &summary).await;
        let written = write.filter(|_| answered.status().is_success());
        written
            .iter()
            .for_each(|write| cluster.checks.took_effect(write));
        if crash == Some(true) {
            self.crash(&summary);
            return None;
        }
        self.turn(passage.answer, passage).await;
        self.connection.resumed(schedule, passage.order).await;
        match passage.fate {
            Fate::Lost | Fate::Unanswered => Some(Err(broken())),
            Fate::Delivered | Fate::Refused(_) => Some(Ok(answered)),
        }
    }

    async fn turn(&self, delay: u64, passage: Passage) {
        let schedule = &self.cluster.schedule;
        schedule.turn(delay, passage.order).await;
        let held = self.connection.delay(schedule.now());
        if held > 0 {
            schedule.turn(held, passage.order).await;
        }
    }

    fn crash(&self, summary: &str) {
        self.connection.cut();
        let (schedule, trace) = (&self.cluster.schedule, &self.cluster.trace);
        trace.record(schedule.now(), (&*self.client, "crash"), || {
            format!("{} CRASHES at {summary}", self.client)
        });
    }

    async fn effect(
        &self,
        request: Request<Bytes>,
        passage: Passage,
        summary: &str,
    ) -> Response<Reply> {
        let cluster = &self.cluster;
        let watch = is_watch(&request);
        let response = match passage.fate {
            Fate::Lost => Response::new(whole(Bytes::new())),
            Fate::Refused(code) => refusal(code),
            Fate::Delivered | Fate::Unanswered => {
                let (identity, timeout) = (identity(&request), timeout(&request));
                let path = request.uri().path().to_owned();
                let response = cluster.server.handle(&self.user, request).await;
                response.map(|body| {
                    if watch {
                        watches::delayed(self.clone(), path, identity, timeout, body)
                    } else {
                        body.map_err(|never| match never {}).boxed_unsync()
                    }
                })
            }
        };
        let (status, fate) = (response.status().as_u16(), passage.fate);
        cluster.trace.record(
            cluster.schedule.now(),
            (&*self.client, summary, status, fate),
            || match fate {
                Fate::Delivered => format!("{} {summary} → {status}", self.client),
                fate => format!("{} {summary} → {status} ({fate:?})", self.client),
            },
        );
        response
    }
}

impl tower::Service<Request<Body>> for Wire {
    type Response = Response<Reply>;
    type Error = io::Error;
    type Future = BoxFuture<'static, io::Result<Response<Reply>>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let wire = self.clone();
        Box::pin(async move {
            let (parts, body) = request.into_parts();
            let body = body.collect().await.map_err(io::Error::other)?;
            wire.send(Request::from_parts(parts, body.to_bytes())).await
        })
    }
}

fn broken() -> io::Error {
    io::Error::new(io::ErrorKind::ConnectionReset, "the connection broke")
}

fn whole(bytes: Bytes) -> Reply {
    Full::new(bytes)
        .map_err(|never| match never {})
        .boxed_unsync()
}

/// Returns whether the request opens a watch.
pub fn is_watch(request: &Request<Bytes>) -> bool {
    let query = request.uri().query().unwrap_or_default();
    query.contains("watch=true")
}

/// Returns the time after which the API server ends the watch.
///
/// Source: `ListResource` of `k8s.io/apiserver/pkg/endpoints/handlers/get.go`: half an hour or
/// more.
fn timeout(request: &Request<Bytes>) -> Duration {
    let mut parameters = request.uri().query().unwrap_or_default().split('&');
    let seconds = parameters.find_map(|each| each.strip_prefix("timeoutSeconds=")?.parse().ok());
    Duration::from_secs(seconds.unwrap_or(1_800))
}

/// Returns whether the request belongs to the leader election.
fn is_election(request: &Request<Bytes>) -> bool {
    request.uri().path().contains("/leases")
}

/// A hash that is equal for equal requests. The name of an Event contains the time of a real clock,
/// so the content of the Event identifies it.
fn identity(request: &Request<Bytes>) -> u64 {
    let (path, watch) = (request.uri().path(), is_watch(request));
    let Some(end) = path.find("/events") else {
        return digest((request.method().as_str(), path, watch));
    };
    let event: serde_json::Value = serde_json::from_slice(request.body()).unwrap_or_default();
    let said =
        [&event["reason"], &event["regarding"]["uid"], &event["note"]].map(ToString::to_string);
    digest((request.method().as_str(), &path[..end], said))
}

/// The method and the path of a request, for the transcript.
fn summary(request: &Request<Bytes>) -> String {
    let path = request.uri().path();
    let path = path
        .find("/events")
        .map_or(path, |at| &path[..at + "/events".len()]);
    let path = path
        .trim_start_matches("/api/v1/")
        .trim_start_matches("/apis/");
    if is_watch(request) {
        format!("WATCH {path}")
    } else {
        format!("{} {path}", request.method())
    }
}

/// The answer of an API server that refuses a request, or of a proxy in front of it.
fn refusal(code: u16) -> Response<Reply> {
    let reason = match code {
        409 => "Conflict",
        429 => "TooManyRequests",
        503 => "ServiceUnavailable",
        504 => "Timeout",
        _ => "InternalError",
    };
    let body = match code {
        404 => "404 page not found\n".into(),
        _ => serde_json::json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": "refused by the simulation", "reason": reason, "code": code,
        })
        .to_string(),
    };
    let mut response = Response::new(whole(body.into()));
    // Every code in `REFUSALS` is valid.
    *response.status_mut() = http::StatusCode::from_u16(code).unwrap_or_default();
    response
}
