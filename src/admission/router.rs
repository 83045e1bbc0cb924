//! From HTTP to a hook and back: bounds, deadlines, panics.

use super::{
    answer::{Answer, Reviewed, Unavailable},
    body_budget::{self, Grant, Share},
    call_budget, decision, envelope,
    hook::Hook,
    request::Request,
};
use crate::telemetry::{LogLimiter, Metrics};
use axum::{
    Router,
    body::Body,
    extract::Request as HttpRequest,
    http::{StatusCode, header::CONTENT_TYPE},
    response::{IntoResponse, Response},
    routing::post,
};
use futures::{FutureExt, TryStreamExt};
use hyper::body::Body as _;
use std::{panic::AssertUnwindSafe, sync::Arc, time::Duration};
use tokio::time::Instant;
use tokio::{
    sync::{Semaphore, SemaphorePermit},
    time::timeout_at,
};
use tracing::Instrument;

/// Two objects of the API server's limit of 3 MiB each, and some room.
const BODY_LIMIT: usize = 8 << 20;
/// Reviews under way at once on one path. A review from memory takes a fraction of a millisecond,
/// so this bounds memory, not speed; one that asks the API server takes as long as that. A path
/// that is swamped leaves the others alone.
const CONCURRENT_REVIEWS: usize = 64;

/// How reviews are answered.
#[derive(Clone)]
pub struct Options {
    /// Allow everything and say as a warning what would be done.
    pub dry_run: bool,
    /// The longest time that a client may announce, instead of each hook's own.
    pub longest_timeout: Option<Duration>,
    /// The metrics of the process.
    pub metrics: Arc<Metrics>,
}

/// A route for each hook.
pub fn router(hooks: Vec<Hook>, options: &Options) -> Router {
    let mut router = Router::new();
    let shares = body_budget::shares(hooks.len());
    for (hook, bodies) in hooks.into_iter().zip(shares) {
        let path = hook.path;
        let route = Arc::new(Route {
            hook,
            options: options.clone(),
            places: Semaphore::new(CONCURRENT_REVIEWS),
            bodies,
            unreadable: LogLimiter::default(),
            unavailable: LogLimiter::default(),
        });
        let handler = move |request: HttpRequest| review(route.clone(), request);
        router = router.route(path, post(handler));
    }
    router
}

/// One path.
struct Route {
    hook: Hook,
    options: Options,
    places: Semaphore,
    bodies: Share,
    /// Limits log lines about bodies that are invalid or do not arrive.
    unreadable: LogLimiter,
    /// Lines about what holds for every review until it ends.
    unavailable: LogLimiter,
}

/// Answers within the time that the client announces, up to the hook's own: by then the API server
/// has given up.
async fn review(route: Arc<Route>, request: HttpRequest) -> Response {
    let started = Instant::now();
    let limit = route.options.longest_timeout.unwrap_or(route.hook.timeout);
    let time = call_budget::announced(request.uri(), limit);
    let (response, verdict) = match receive(&route, request.into_body(), time).await {
        Ok(received) => answer(&route, received, call_budget::for_questions(time), started).await,
        Err(refusal) => refusal,
    };
    let metrics = &route.options.metrics;
    metrics
        .admission
        .reviewed(route.hook.path, verdict, started.elapsed());
    response
}

/// The body of a review, and what it holds of the limits until it is answered.
struct Received<'a> {
    body: Vec<u8>,
    place: (SemaphorePermit<'a>, Grant),
}

type Refusal = (Response, &'static str);

/// Reads the body within that time, once there is a place for the review and room for the body.
async fn receive(route: &Route, body: Body, time: Duration) -> Result<Received<'_>, Refusal> {
    let deadline = Instant::now() + time;
    let length = body.size_hint();
    let length = length.exact().map_or(BODY_LIMIT, |length| {
        usize::try_from(length).unwrap_or(usize::MAX)
    });
    if length > BODY_LIMIT {
        return Err(too_large(route));
    }
    let place = async {
        // The semaphore is never closed.
        let place = route.places.acquire().await.ok()?;
        Some((place, route.bodies.acquire(length).await))
    };
    let Ok(Some(place)) = timeout_at(deadline, place).await else {
        return Err(overloaded(route, time));
    };
    match timeout_at(deadline, read(body, length)).await {
        Ok(Ok(Some(body))) => Ok(Received { body, place }),
        Ok(Ok(None)) => Err(too_large(route)),
        Ok(Err(_)) => {
            let sentence = "the body could not be read".to_owned();
            Err(unreadable(route, StatusCode::BAD_REQUEST, sentence))
        }
        Err(_) => {
            let sentence = format!("the body did not arrive within {time:?}");
            Err(unreadable(route, StatusCode::REQUEST_TIMEOUT, sentence))
        }
    }
}

/// The body, unless it is larger than `length`. Memory is only touched as far as something
/// arrives.
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
    let sentence = format!("the body is larger than {BODY_LIMIT} bytes");
    unreadable(route, StatusCode::PAYLOAD_TOO_LARGE, sentence)
}

/// No review, so no uid to answer to: plain HTTP.
fn unreadable(route: &Route, status: StatusCode, sentence: String) -> Refusal {
    let (verdict, path) = ("Unreadable", route.hook.path);
    if let Some(suppressed) = route.unreadable.check() {
        tracing::info!(verdict, path, why = sentence, suppressed, "review");
    }
    ((status, sentence + "\n").into_response(), verdict)
}

/// A failed call, as soon as the API server has given up at the latest.
fn overloaded(route: &Route, time: Duration) -> Refusal {
    let (verdict, path) = ("Unavailable", route.hook.path);
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
        place: _until_answered,
    } = received;
    let request = match envelope::decode(&body) {
        Ok(mut request) => {
            request.call_budget = call_budget;
            Arc::new(request)
        }
        Err(sentence) => return unreadable(route, StatusCode::BAD_REQUEST, sentence),
    };
    // The request holds copies of the objects.
    drop(body);
    let span = decision::span(hook.path, &request);
    let reviewed = ask(hook, request.clone()).instrument(span.clone()).await;
    let verdict = reviewed.as_ref().map_or("Unavailable", Answer::verdict);
    span.record("verdict", verdict);
    let log = decision::Log {
        path: hook.path,
        unavailable: &route.unavailable,
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
    (
        ([(CONTENT_TYPE, "application/json")], body).into_response(),
        verdict,
    )
}

/// A hook that is asked what it does not know (the webhook configuration is a release ahead, or
/// wrong), or that panics, has no answer: a call that failed. It is never a refusal, for no user
/// can mend it.
async fn ask(hook: &Hook, request: Arc<Request>) -> Reviewed {
    if !hook.rules.iter().any(|rule| rule.covers(&request)) {
        let (resource, sub) = (&request.resource.resource, &request.sub_resource);
        return Err(Unavailable::new(format!(
            "{} does not review {} of {resource}/{sub}; the webhook configuration is wrong",
            hook.path, request.operation
        )));
    }
    let review = AssertUnwindSafe(hook.review.answer(request)).catch_unwind();
    let panicked = |_| {
        Err(Unavailable::new(format!(
            "volume-warden panicked in {}; this is a bug",
            hook.path
        )))
    };
    review.await.unwrap_or_else(panicked)
}

#[cfg(test)]
mod log_tests;

#[cfg(test)]
mod tests;
