//! Routes HTTP requests to webhooks, and limits their size, number and duration. If a webhook
//! panics, only its review fails.

use super::{
    answer::Unavailable,
    body_budget::{self, Grant, Share},
    call_budget, decision, envelope,
    hook::Hook,
    limits::CONCURRENT_REVIEWS,
    measured::Measured,
    not_served::not_served,
    outcome::Outcome,
    request::Request,
};
use crate::telemetry::{
    LogLimiter, Metrics, NamespaceLogLimiter,
    admission::{UNAVAILABLE, UNREADABLE},
};
use axum::{
    Router,
    body::Body,
    extract::Request as HttpRequest,
    http::{StatusCode, header::CONTENT_TYPE},
    response::{IntoResponse, Response},
    routing::post,
};
use futures::TryStreamExt;
use hyper::body::Body as _;
use std::{sync::Arc, time::Duration};
use tokio::{
    sync::{Semaphore, SemaphorePermit},
    time::{Instant, timeout_at},
};
use tracing::Instrument;

/// Maximum size of a body: two objects of the 1.5 MiB that etcd stores, with room for JSON that is
/// longer than what was sent. An object of more than a megabyte of characters that the API server
/// escapes (`<` as six bytes) exceeds it; its review is refused, so the API server applies the
/// `failurePolicy`.
const BODY_LIMIT: usize = 8 << 20;

/// How reviews are answered.
#[derive(Clone)]
pub struct Options {
    /// Whether denials and patches are withheld: the request is allowed unchanged, and a warning
    /// describes them.
    pub dry_run: bool,
    /// If set, the maximum time limit of a review; it replaces [`Hook::timeout`] of every webhook.
    pub longest_timeout: Option<Duration>,
    /// Counts the reviews by webhook and verdict, and measures their duration.
    pub metrics: Arc<Metrics>,
}

/// Builds the router with one route for each webhook. A request for another path is answered 404.
pub fn router(hooks: Vec<Hook>, options: &Options) -> Router {
    let mut router = Router::new();
    let shares = body_budget::shares(hooks.len());
    for (hook, bodies) in hooks.into_iter().zip(shares) {
        let path = hook.path;
        options.metrics.admission.begun(path);
        let route = Arc::new(Route {
            hook,
            options: options.clone(),
            permits: Semaphore::new(CONCURRENT_REVIEWS),
            bodies,
            unreadable: LogLimiter::default(),
            unavailable: LogLimiter::default(),
            abandoned: LogLimiter::default(),
            refused: NamespaceLogLimiter::default(),
        });
        let handler = move |request: HttpRequest| review(route.clone(), request);
        router = router.route(path, post(handler));
    }
    let unknown = Arc::new(LogLimiter::default());
    router.fallback(async move |request: HttpRequest| not_served(&unknown, request.uri().path()))
}

/// The route of one webhook path, with its limits.
struct Route {
    hook: Hook,
    options: Options,
    permits: Semaphore,
    bodies: Share,
    /// Limits log lines about bodies that are invalid or do not arrive to one a minute.
    unreadable: LogLimiter,
    /// Limits the lines at the level warn about reviews that cannot be answered to one a minute.
    unavailable: LogLimiter,
    /// Limits the lines about reviews that end before their answer to one a minute.
    abandoned: LogLimiter,
    /// Limits the lines at the level info about refusals to ten a minute for each namespace.
    refused: NamespaceLogLimiter,
}

/// Receives and answers a review. Its time limit is the timeout that the client announces, but at
/// most [`Options::longest_timeout`], or else that of the webhook: after that, the API server no
/// longer waits for the answer.
async fn review(route: Arc<Route>, request: HttpRequest) -> Response {
    let measured = Measured::begin(&route.options.metrics, route.hook.path, &route.abandoned);
    let started = measured.started();
    let limit = route.options.longest_timeout.unwrap_or(route.hook.timeout);
    let time = call_budget::requested_timeout(request.uri(), limit);
    let (response, verdict) = match receive(&route, request.into_body(), time).await {
        Ok(received) => {
            // Waiting for a place and for the body has used up a part of the time limit.
            let left = time.saturating_sub(started.elapsed());
            answer(
                &route,
                received,
                call_budget::share_for_calls(left),
                started,
            )
            .await
        }
        Err(refusal) => refusal,
    };
    measured.end(verdict);
    response
}

/// The body of a review, and the place and memory that the review holds until it is answered.
struct Received<'a> {
    body: Vec<u8>,
    permit: (SemaphorePermit<'a>, Grant),
}

type Refusal = (Response, &'static str);

/// Waits until there is memory for the body and fewer than [`CONCURRENT_REVIEWS`] reviews are under
/// way on the path, then reads the body; all within `time`.
async fn receive(route: &Route, body: Body, time: Duration) -> Result<Received<'_>, Refusal> {
    let deadline = Instant::now() + time;
    let length = body.size_hint().exact().map_or(BODY_LIMIT, |length| {
        usize::try_from(length).unwrap_or(usize::MAX)
    });
    if length > BODY_LIMIT {
        return Err(too_large(route));
    }
    let permit = async {
        // Memory comes first: a large body that waits for it holds no place of an ordinary review.
        let memory = route.bodies.acquire(length).await;
        // The semaphore is never closed, so acquiring a permit cannot fail.
        Some((route.permits.acquire().await.ok()?, memory))
    };
    let Ok(Some(permit)) = timeout_at(deadline, permit).await else {
        return Err(overloaded(route, time));
    };
    match timeout_at(deadline, read(body, length)).await {
        Ok(Ok(Some(body))) => Ok(Received { body, permit }),
        Ok(Ok(None)) => Err(too_large(route)),
        Ok(Err(_)) => {
            let sentence = "the review's body could not be read".to_owned();
            Err(unreadable(route, StatusCode::BAD_REQUEST, sentence))
        }
        Err(_) => {
            let sentence = format!("the review's body did not arrive within {time:?}");
            Err(unreadable(route, StatusCode::REQUEST_TIMEOUT, sentence))
        }
    }
}

/// Reads the body; none if it is larger than `length`. The operating system provides memory only
/// for bytes that arrive.
async fn read(body: Body, length: usize) -> Result<Option<Vec<u8>>, axum::Error> {
    let (mut bytes, mut parts) = (Vec::with_capacity(length), body.into_data_stream());
    while let Some(part) = parts.try_next().await? {
        if bytes.len() + part.len() > length {
            return Ok(None);
        }
        bytes.extend_from_slice(&part);
    }
    Ok(Some(bytes))
}

fn too_large(route: &Route) -> Refusal {
    let sentence = format!("the review's body is larger than {BODY_LIMIT} bytes");
    unreadable(route, StatusCode::PAYLOAD_TOO_LARGE, sentence)
}

/// Answers a body that did not arrive, is too large or is no review with a plain HTTP status:
/// without a uid there is no review to answer.
fn unreadable(route: &Route, status: StatusCode, sentence: String) -> Refusal {
    let (verdict, path) = (UNREADABLE, route.hook.path);
    if let Some(suppressed) = route.unreadable.check() {
        tracing::info!(verdict, path, why = sentence, suppressed, "review");
    }
    ((status, sentence + "\n").into_response(), verdict)
}

/// Answers 503, because a review got no place or no memory within its time limit.
fn overloaded(route: &Route, time: Duration) -> Refusal {
    let (verdict, path) = (UNAVAILABLE, route.hook.path);
    let why = format!("too many or too large reviews at once: no room within {time:?}");
    if let Some(suppressed) = route.unavailable.check() {
        tracing::warn!(verdict, path, why, suppressed, "review");
    }
    let response = (StatusCode::SERVICE_UNAVAILABLE, why + "\n");
    (response.into_response(), verdict)
}

async fn answer(
    route: &Route,
    received: Received<'_>,
    call_budget: Duration,
    started: Instant,
) -> (Response, &'static str) {
    let hook = &route.hook;
    let Received {
        body,
        permit: _until_answered,
    } = received;
    let request = match envelope::decode(&body) {
        Ok(mut request) => {
            request.call_budget = call_budget;
            Arc::new(request)
        }
        Err(sentence) => return unreadable(route, StatusCode::BAD_REQUEST, sentence),
    };
    // The body is dropped now, because the parsed request holds copies of its objects.
    drop(body);
    let span = decision::span(hook.path, &request);
    let outcome = call_hook(hook, request.clone())
        .instrument(span.clone())
        .await;
    let (verdict, reviewed) = (outcome.verdict(), outcome.reviewed);
    span.record("verdict", verdict);
    let log = decision::Log {
        path: hook.path,
        unavailable: &route.unavailable,
        refused: &route.refused,
        dry_run: route.options.dry_run,
    };
    log.report(&request, &reviewed, verdict, started.elapsed());
    let answer = match reviewed {
        Ok(answer) => answer,
        Err(why) => {
            let response = (StatusCode::SERVICE_UNAVAILABLE, format!("{why}\n"));
            return (response.into_response(), verdict);
        }
    };
    let body = envelope::encode(&request.uid, answer, route.options.dry_run);
    let response = ([(CONTENT_TYPE, "application/json")], body);
    (response.into_response(), verdict)
}

/// Calls the webhook. It also returns [`Unavailable`] if the webhook panics, or does not review
/// such requests: then its configuration is wrong or of a newer release. The API server counts that
/// as a failed webhook call. It is no denial, because the user cannot correct it.
async fn call_hook(hook: &Hook, request: Arc<Request>) -> Outcome {
    if !hook.rules.iter().any(|rule| rule.covers(&request)) {
        let (resource, sub) = (&request.resource.resource, &request.sub_resource);
        let why = format!(
            "{} does not review {} of {resource}/{sub}; the webhook configuration is wrong",
            hook.path, request.operation
        );
        return Outcome::from(Err(Unavailable::new(why)));
    }
    hook.review.outcome(request, hook.path).await
}

#[cfg(test)]
mod log_tests;

#[cfg(test)]
mod tests;
