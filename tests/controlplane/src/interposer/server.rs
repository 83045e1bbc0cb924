//! Accepts connections and forwards requests.

use std::convert::Infallible;
use std::future::pending;
use std::sync::Arc;

use anyhow::{Context, Result};
use axum::body::{Body, to_bytes};
use axum::http::header::{
    AUTHORIZATION, CONNECTION, CONTENT_TYPE, HOST, HeaderMap, HeaderName, TRANSFER_ENCODING,
    UPGRADE,
};
use axum::http::request::Parts;
use axum::http::{Request, Response};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::json;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::time::{Duration, sleep};

use super::Seen;
use super::fault::{ActiveRule, Faults};
use super::rule::Action;
use super::stream::Gate;

/// Headers that concern one connection, and credentials: kube's client sends its own.
const NOT_FORWARDED: [HeaderName; 5] =
    [AUTHORIZATION, CONNECTION, HOST, TRANSFER_ENCODING, UPGRADE];

/// Serves until the future is dropped.
pub(super) async fn accept(
    listener: TcpListener,
    client: kube::Client,
    faults: Arc<Faults>,
) -> Infallible {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                tokio::spawn(serve(stream, client.clone(), Arc::clone(&faults)));
            }
            // For example, no file descriptor is free: give other tasks time to close some.
            Err(_) => sleep(Duration::from_millis(50)).await,
        }
    }
}

async fn serve(stream: TcpStream, client: kube::Client, faults: Arc<Faults>) {
    let cut = Arc::new(Notify::new());
    let service = service_fn(|request| {
        let exchange = Exchange::new(&request, &faults, &cut);
        let client = client.clone();
        async move { Ok::<_, Infallible>(exchange.answer_or_cut(client, request).await) }
    });
    // A watch works only if each chunk is flushed at once.
    let _ = stream.set_nodelay(true);
    tokio::select! {
        // The client observes every outcome.
        _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service) => {}
        () = cut.notified() => {}
    }
}

/// A request and its response.
#[derive(Debug, Clone)]
pub(super) struct Exchange {
    number: usize,
    seen: Seen,
    pub(super) faults: Arc<Faults>,
    cut: Arc<Notify>,
}

impl Exchange {
    fn new(request: &Request<Incoming>, faults: &Arc<Faults>, cut: &Arc<Notify>) -> Self {
        let seen = Seen {
            method: request.method().to_string(),
            path: request.uri().path().to_owned(),
            query: request.uri().query().unwrap_or_default().to_owned(),
        };
        Self {
            number: faults.record(seen.clone()),
            seen,
            faults: Arc::clone(faults),
            cut: Arc::clone(cut),
        }
    }

    /// The rules of this kind that apply to the request.
    pub(super) fn rules(&self, wanted: fn(&Action) -> bool) -> Vec<Arc<ActiveRule>> {
        self.faults.rules(self.number, &self.seen, wanted)
    }

    /// Drops the connection; never returns, because that drops the caller as well.
    pub(super) async fn cut(&self) -> Infallible {
        self.cut.notify_one();
        pending().await
    }

    async fn answer_or_cut(
        self,
        client: kube::Client,
        request: Request<Incoming>,
    ) -> Response<Body> {
        match self.answer(client, request).await {
            Ok(response) => response,
            // An unreachable API server must look unreachable to the client.
            Err(_) => match self.cut().await {},
        }
    }

    async fn answer(
        &self,
        client: kube::Client,
        request: Request<Incoming>,
    ) -> Result<Response<Body>> {
        let (parts, body) = request.into_parts();
        let body = to_bytes(Body::new(body), usize::MAX).await?;
        let mut postponing = Vec::new();
        for active in self.rules(before_forwarding) {
            match &active.rule.action {
                Action::Respond {
                    code,
                    reason,
                    message,
                } => return status(*code, reason, message),
                Action::Answer(body) => return json_body(200, body.clone()),
                Action::Hold => active.hold().await,
                Action::Postpone => postponing.push(active.clone()),
                Action::Delay(time) => sleep(*time).await,
                Action::Cut => match self.cut().await {},
                Action::Pass | Action::HoldResponse | Action::FreezeStream => {}
            }
        }
        let request = forwarded(parts, body.into())?;
        let response = if postponing.is_empty() {
            client.send(request).await?
        } else {
            send_later(client, request, postponing).await?
        };
        for active in self.rules(|action| matches!(action, Action::HoldResponse)) {
            active.hold().await;
        }
        let (mut parts, body) = response.into_parts();
        parts.headers = end_to_end(&parts.headers);
        Ok(Response::from_parts(
            parts,
            Gate::new(self.clone(), body).into_body(),
        ))
    }
}

/// Runs in its own task: hyper drops the response future when the client disconnects.
async fn send_later(
    client: kube::Client,
    request: Request<kube::client::Body>,
    postponing: Vec<Arc<ActiveRule>>,
) -> Result<Response<kube::client::Body>> {
    let sent = tokio::spawn(async move {
        for active in postponing {
            active.hold().await;
        }
        client.send(request).await
    });
    Ok(sent.await??)
}

fn before_forwarding(action: &Action) -> bool {
    !matches!(action, Action::HoldResponse | Action::FreezeStream)
}

fn forwarded(parts: Parts, body: kube::client::Body) -> Result<Request<kube::client::Body>> {
    let target = parts
        .uri
        .path_and_query()
        .context("a request without a path")?;
    let mut request = Request::builder()
        .method(parts.method)
        .uri(target.as_str())
        .body(body)?;
    *request.headers_mut() = end_to_end(&parts.headers);
    Ok(request)
}

fn end_to_end(headers: &HeaderMap) -> HeaderMap {
    let mut headers = headers.clone();
    for name in NOT_FORWARDED {
        headers.remove(name);
    }
    headers
}

/// A `Status` as the API server formats it.
fn status(code: u16, reason: &str, message: &str) -> Result<Response<Body>> {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {},
        "status": "Failure", "code": code, "reason": reason, "message": message,
    });
    json_body(code, status.to_string())
}

fn json_body(code: u16, body: String) -> Result<Response<Body>> {
    let response = Response::builder()
        .status(code)
        .header(CONTENT_TYPE, "application/json");
    Ok(response.body(Body::from(body))?)
}
