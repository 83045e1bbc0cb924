//! From HTTP to a hook and back: bounds, deadlines, panics.

use super::{answer::Answer, decision, envelope, hook::Hook, patience, request::Request};
use crate::telemetry::{Metrics, Sparse};
use axum::{
    Router,
    body::to_bytes,
    extract::Request as HttpRequest,
    http::{StatusCode, header::CONTENT_TYPE},
    response::{IntoResponse, Response},
    routing::post,
};
use futures::FutureExt;
use std::{
    panic::AssertUnwindSafe,
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::time::timeout;
use tower::limit::GlobalConcurrencyLimitLayer;
use tracing::Instrument;

/// Two objects of the API server's limit of 3 MiB each, and some room.
const BODY_LIMIT: usize = 8 << 20;
/// For a review's body to arrive. The API server sends it with the head; whoever stalls would keep a place for ever.
const BODY_DEADLINE: Duration = Duration::from_secs(5);
/// Reviews under way at once on one path. A review from memory takes a fraction of a millisecond, so this bounds memory, not speed;
/// one that asks the API server takes as long as that. A path that is swamped leaves the others alone.
const CONCURRENT_REVIEWS: usize = 64;

/// How reviews are answered.
#[derive(Clone)]
pub struct Options {
    /// Allow everything and say as a warning what would be done.
    pub dry_run: bool,
    /// Where to count.
    pub metrics: Arc<Metrics>,
}

/// A route for each hook.
pub fn router(hooks: Vec<Hook>, options: &Options) -> Router {
    let mut router = Router::new();
    for hook in hooks {
        let path = hook.path;
        let door = Arc::new(Door {
            hook,
            options: options.clone(),
            unreadable: Sparse::default(),
            unavailable: Sparse::default(),
        });
        let limit = GlobalConcurrencyLimitLayer::new(CONCURRENT_REVIEWS);
        let handler = move |request: HttpRequest| review(door.clone(), request);
        router = router.route(path, post(handler).layer(limit));
    }
    router
}

/// One path.
struct Door {
    hook: Hook,
    options: Options,
    /// Lines about what anybody may send, or an API server that is cut off.
    unreadable: Sparse,
    /// Lines about what holds for every review until it ends.
    unavailable: Sparse,
}

async fn review(door: Arc<Door>, request: HttpRequest) -> Response {
    let started = Instant::now();
    let patience = patience::told(request.uri());
    let body = request.into_body();
    let (response, verdict) = match timeout(BODY_DEADLINE, to_bytes(body, BODY_LIMIT)).await {
        Ok(Ok(body)) => answer(&door, &body, patience, started).await,
        Ok(Err(_)) => {
            let sentence =
                format!("the body could not be read, or is larger than {BODY_LIMIT} bytes");
            unreadable(&door, StatusCode::PAYLOAD_TOO_LARGE, sentence)
        }
        Err(_) => {
            let sentence = format!("the body did not arrive within {BODY_DEADLINE:?}");
            unreadable(&door, StatusCode::REQUEST_TIMEOUT, sentence)
        }
    };
    let metrics = &door.options.metrics;
    metrics.reviewed(door.hook.path, verdict, started.elapsed());
    response
}

/// No review, so no uid to answer to: plain HTTP.
fn unreadable(door: &Door, status: StatusCode, sentence: String) -> (Response, &'static str) {
    let (verdict, path) = ("Unreadable", door.hook.path);
    if let Some(left_out) = door.unreadable.due() {
        tracing::info!(verdict, path, why = sentence, left_out, "review");
    }
    ((status, sentence + "\n").into_response(), verdict)
}

async fn answer(
    door: &Door,
    body: &[u8],
    patience: Duration,
    started: Instant,
) -> (Response, &'static str) {
    let hook = &door.hook;
    let request = match envelope::decode(body) {
        Ok(mut request) => {
            request.patience = patience;
            Arc::new(request)
        }
        Err(sentence) => return unreadable(door, StatusCode::BAD_REQUEST, sentence),
    };
    let span = decision::span(hook.path, &request);
    let answer = ask(hook, request.clone()).instrument(span.clone()).await;
    let verdict = answer.verdict();
    span.record("verdict", verdict);
    let log = decision::Log {
        path: hook.path,
        unavailable: &door.unavailable,
    };
    log.tell(&request, &answer, started.elapsed());
    if let Answer::Unavailable(why) = answer {
        return (
            (StatusCode::SERVICE_UNAVAILABLE, format!("{why}\n")).into_response(),
            verdict,
        );
    }
    let body = envelope::encode(&request.uid, answer, door.options.dry_run);
    (
        ([(CONTENT_TYPE, "application/json")], body).into_response(),
        verdict,
    )
}

/// A hook that is asked what it does not know (the webhook configuration is a release ahead, or wrong), or that panics, has no answer:
/// a call that failed. It is never a refusal, for no user can mend it.
async fn ask(hook: &Hook, request: Arc<Request>) -> Answer {
    if !hook.rules.iter().any(|rule| rule.covers(&request)) {
        let (resource, sub) = (&request.resource.resource, &request.sub_resource);
        return Answer::unavailable(format!(
            "{} does not review {} of {resource}/{sub}; the webhook configuration is wrong",
            hook.path, request.operation
        ));
    }
    let review = AssertUnwindSafe(hook.review.answer(request)).catch_unwind();
    let panicked = |_| {
        Answer::unavailable(format!(
            "volume-warden panicked in {}; this is a bug",
            hook.path
        ))
    };
    review.await.unwrap_or_else(panicked)
}

#[cfg(test)]
mod log_tests;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admission::{Review, Rule};
    use axum::body::Body;
    use serde_json::{Value, json};
    use tower::ServiceExt;

    fn hook(review: impl Fn(&Request) -> Answer + Send + Sync + 'static) -> Hook {
        let rules = &[Rule {
            operation: "CREATE",
            resource: "pods",
            subresource: "",
        }];
        Hook {
            path: "/hook",
            rules,
            review: Review::from_memory(review),
        }
    }

    async fn post_to(hook: Hook, dry_run: bool, body: Vec<u8>) -> (StatusCode, String) {
        let options = Options {
            dry_run,
            metrics: Arc::new(Metrics::new()),
        };
        let request = HttpRequest::post("/hook")
            .body(Body::from(body))
            .expect("request");
        let response = router(vec![hook], &options)
            .oneshot(request)
            .await
            .expect("answers");
        let status = response.status();
        let body = to_bytes(response.into_body(), usize::MAX)
            .await
            .expect("body");
        (status, String::from_utf8(body.to_vec()).expect("text"))
    }

    fn pod_review() -> Value {
        json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
            "uid": "u-1", "operation": "CREATE", "resource": {"group": "", "version": "v1", "resource": "pods"},
            "namespace": "ns", "name": "p", "object": {"metadata": {"name": "p"}}}})
    }

    async fn reviewed(hook: Hook, dry_run: bool, review: Value) -> Value {
        let (status, body) = post_to(hook, dry_run, review.to_string().into_bytes()).await;
        assert_eq!(status, StatusCode::OK, "{body}");
        let answer: Value = serde_json::from_str(&body).expect("json");
        assert_eq!(
            answer["response"]["uid"], "u-1",
            "the uid is echoed whatever the answer"
        );
        answer["response"].clone()
    }

    fn patch() -> Answer {
        let operations = vec![crate::objects::finalizers::append(&[], "f")];
        Answer::Patch {
            operations,
            what: "add f".into(),
        }
    }

    #[tokio::test]
    async fn patches_are_base64() {
        let response = reviewed(hook(|_| patch()), false, pod_review()).await;
        assert_eq!(
            (&response["allowed"], &response["patchType"]),
            (&json!(true), &json!("JSONPatch"))
        );
        let encoded: k8s_openapi::ByteString =
            serde_json::from_value(response["patch"].clone()).expect("base64");
        let decoded: Value = serde_json::from_slice(&encoded.0).expect("json");
        assert_eq!(
            decoded,
            json!([{"op": "add", "path": "/metadata/finalizers", "value": ["f"]}])
        );
    }

    #[tokio::test]
    async fn a_dry_run_only_says_what_it_would_do() {
        let patched = reviewed(hook(|_| patch()), true, pod_review()).await;
        assert_eq!(
            patched,
            json!({"uid": "u-1", "allowed": true, "warnings": ["volume-warden (dry run) would add f"]})
        );
        let denied = reviewed(hook(|_| Answer::deny("no".into())), true, pod_review()).await;
        assert_eq!(denied["allowed"], true);
        assert_eq!(
            denied["warnings"][0],
            "volume-warden (dry run) would refuse this: no"
        );
    }

    /// The failed call that `failurePolicy` lets pass, and no refusal.
    async fn unanswered(hook: Hook, review: Value) -> String {
        let (status, why) = post_to(hook, false, review.to_string().into_bytes()).await;
        assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE, "{why}");
        why
    }

    #[tokio::test]
    async fn a_panic_is_a_failed_call() {
        let why = unanswered(hook(|_| unreachable!("on purpose")), pod_review()).await;
        assert!(why.contains("panicked in /hook"), "{why}");
    }

    /// Also one that began after it was waiting for somebody.
    #[tokio::test]
    async fn a_panic_of_a_review_that_asks_is_one_too() {
        let mut asking = hook(|_| Answer::Allow);
        asking.review = Review::Asking(Arc::new(|_| {
            Box::pin(async {
                tokio::task::yield_now().await;
                unreachable!("on purpose")
            })
        }));
        let why = unanswered(asking, pod_review()).await;
        assert!(why.contains("panicked in /hook"), "{why}");
    }

    #[tokio::test]
    async fn what_the_hook_does_not_review_is_a_failed_call() {
        for (field, value) in [
            ("operation", json!("DELETE")),
            ("subResource", json!("status")),
            ("resource", json!({"resource": "nodes"})),
        ] {
            let mut review = pod_review();
            review["request"][field] = value;
            let why = unanswered(hook(|_| Answer::Allow), review).await;
            assert!(why.contains("configuration is wrong"), "{field}: {why}");
        }
    }

    #[tokio::test]
    async fn an_object_that_cannot_be_read_is_a_failed_call() {
        let read = |request: &Request| match request.object::<crate::objects::pod::PodWire>() {
            Ok(_) => Answer::Allow,
            Err(unreadable) => unreadable,
        };
        for object in [
            json!(null),
            json!("pod"),
            json!({"metadata": {"finalizers": 3}}),
        ] {
            let mut review = pod_review();
            review["request"]["object"] = object;
            let why = unanswered(hook(read), review).await;
            assert!(why.contains("object"), "{why}");
        }
    }

    #[tokio::test]
    async fn what_is_no_review_is_a_bad_request() {
        let mut without_uid = pod_review();
        without_uid["request"]["uid"] = json!("");
        let bodies: Vec<Vec<u8>> = vec![
            b"".to_vec(),
            b"{".to_vec(),
            b"[]".to_vec(),
            b"{\"kind\":\"AdmissionReview\",\"apiVersion\":\"admission.k8s.io/v1\"}".to_vec(),
            b"{\"kind\":\"AdmissionReview\",\"apiVersion\":\"admission.k8s.io/v1beta1\"}".to_vec(),
            b"\xff\xfe".to_vec(),
            without_uid.to_string().into_bytes(),
            vec![b'['; 100_000],
        ];
        for body in bodies {
            let (status, sentence) = post_to(hook(|_| Answer::Allow), false, body).await;
            assert_eq!(status, StatusCode::BAD_REQUEST);
            assert!(sentence.len() > 10, "{sentence}");
        }
    }

    #[tokio::test]
    async fn bodies_are_bounded() {
        let (status, _) = post_to(hook(|_| Answer::Allow), false, vec![b' '; BODY_LIMIT + 1]).await;
        assert_eq!(status, StatusCode::PAYLOAD_TOO_LARGE);
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_never_comes_is_given_up() {
        let options = Options {
            dry_run: false,
            metrics: Arc::new(Metrics::new()),
        };
        let silence = futures::stream::pending::<Result<Vec<u8>, std::io::Error>>();
        let request = HttpRequest::post("/hook")
            .body(Body::from_stream(silence))
            .expect("request");
        let router = router(vec![hook(|_| Answer::Allow)], &options);
        let response = router.oneshot(request).await.expect("answers");
        assert_eq!(response.status(), StatusCode::REQUEST_TIMEOUT);
    }

    /// Reviews that hold all places of one path, by bodies that do not come, cost another path nothing.
    #[tokio::test(start_paused = true)]
    async fn a_swamped_path_leaves_the_others_alone() {
        let options = Options {
            dry_run: false,
            metrics: Arc::new(Metrics::new()),
        };
        let mut other = hook(|_| Answer::Allow);
        other.path = "/other";
        let router = router(vec![hook(|_| Answer::Allow), other], &options);
        let send = |path: &str, body: Body| {
            let request = HttpRequest::post(path).body(body).expect("request");
            tokio::spawn(router.clone().oneshot(request))
        };
        for _ in 0..CONCURRENT_REVIEWS {
            let silence = futures::stream::pending::<Result<Vec<u8>, std::io::Error>>();
            send("/hook", Body::from_stream(silence));
        }
        tokio::time::sleep(BODY_DEADLINE / 2).await;
        let review = pod_review().to_string();
        let (swamped, free) = (
            send("/hook", review.clone().into()),
            send("/other", review.into()),
        );
        tokio::time::sleep(BODY_DEADLINE / 4).await;
        assert!(free.is_finished() && !swamped.is_finished());
        let answer = swamped.await.expect("ends").expect("answers");
        assert_eq!(answer.status(), StatusCode::OK, "once there is a place");
    }

    #[tokio::test]
    async fn not_ready_is_a_failed_call() {
        let (status, why) = post_to(
            hook(|_| Answer::unavailable("no list yet")),
            false,
            pod_review().to_string().into_bytes(),
        )
        .await;
        assert_eq!(
            (status, why.as_str()),
            (StatusCode::SERVICE_UNAVAILABLE, "no list yet\n")
        );
    }
}
