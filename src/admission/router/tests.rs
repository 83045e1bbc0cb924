use super::*;
use crate::admission::{Answer, Review, Reviewed, Rule};
use axum::body::to_bytes;
use serde_json::{Value, json};
use tower::ServiceExt;

const TIMEOUT: Duration = Duration::from_secs(1);

fn hook(review: impl Fn(&Request) -> Answer + Send + Sync + 'static) -> Hook {
    reviewing(move |request| Ok(review(request)))
}

fn reviewing(review: impl Fn(&Request) -> Reviewed + Send + Sync + 'static) -> Hook {
    let rules = &[Rule("CREATE", "pods")];
    Hook {
        path: "/hook",
        rules,
        timeout: TIMEOUT,
        review: Review::from_memory(review),
    }
}

fn options(dry_run: bool) -> Options {
    Options {
        dry_run,
        longest_timeout: None,
        metrics: Arc::new(Metrics::new()),
    }
}

/// A request body of which no byte ever arrives.
fn silence() -> Body {
    let silence = futures::stream::pending::<Result<Vec<u8>, std::io::Error>>();
    Body::from_stream(silence)
}

async fn post_to(hook: Hook, dry_run: bool, body: Vec<u8>) -> (StatusCode, String) {
    let request = HttpRequest::post("/hook")
        .body(Body::from(body))
        .expect("request");
    let response = router(vec![hook], &options(dry_run))
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
        warnings: Vec::new(),
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

#[tokio::test]
async fn control_characters_are_escaped_in_warnings_and_refusals() {
    let text = || "annotation \"a\u{1b}[2J\nb\" \u{202e}".to_owned();
    let shown = "annotation \"a\\u{1b}[2J\\nb\" \\u{202e}";
    let warned = hook(move |_| Answer::Warn(vec![text()]));
    let warned = reviewed(warned, false, pod_review()).await;
    assert_eq!(warned["warnings"], json!([shown]));
    let patched = hook(move |_| match patch() {
        Answer::Patch {
            operations, what, ..
        } => Answer::Patch {
            operations,
            what,
            warnings: vec![text()],
        },
        other => other,
    });
    let patched = reviewed(patched, false, pod_review()).await;
    assert_eq!(patched["warnings"], json!([shown]));
    let refused = reviewed(hook(move |_| Answer::deny(text())), false, pod_review()).await;
    assert_eq!(refused["status"]["message"], shown);
    let would_be = reviewed(hook(move |_| Answer::deny(text())), true, pod_review()).await;
    let would_be = would_be["warnings"][0].as_str().expect("a warning");
    assert!(would_be.ends_with(shown), "{would_be}");
}

/// Sends the review, checks that the answer is 503, to which `failurePolicy` applies, and returns
/// its text.
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

/// A panic is caught even after the first await of a review that calls the API server.
#[tokio::test]
async fn a_panic_of_a_review_with_calls_is_one_too() {
    let mut with_calls = hook(|_| Answer::Allow);
    with_calls.review = Review::WithCalls(Arc::new(|_| {
        Box::pin(async {
            tokio::task::yield_now().await;
            unreachable!("on purpose")
        })
    }));
    let why = unanswered(with_calls, pod_review()).await;
    assert!(why.contains("panicked in /hook"), "{why}");
}

#[tokio::test]
async fn a_panic_of_one_of_two_combined_reviews_leaves_the_answer_of_the_other() {
    let mut combined = hook(|_| unreachable!("on purpose"));
    combined.review = combined.review.and(hook(|_| patch()).review);
    let response = reviewed(combined, false, pod_review()).await;
    assert_eq!(response["patchType"], "JSONPatch");
}

/// Sends the body to the webhook, and returns the metrics after the answer.
async fn counted(hook: Hook, body: Body) -> String {
    let options = options(false);
    let request = HttpRequest::post("/hook").body(body).expect("a request");
    let answered = router(vec![hook], &options).oneshot(request).await;
    assert_eq!(answered.expect("answers").status(), StatusCode::OK);
    options.metrics.text()
}

/// The line of the metrics with the number of reviews with this verdict.
fn number(verdict: &str, count: u64) -> String {
    let labels = format!("path=\"/hook\",verdict=\"{verdict}\"");
    format!("volume_warden_admission_reviews_total{{{labels}}} {count}\n")
}

/// The requests pass without what the component of the failed review would have answered.
#[tokio::test]
async fn a_combined_review_of_which_one_failed_is_counted_as_partial() {
    let warned = || Answer::Warn(vec!["careful".to_owned()]);
    for answer in [patch(), warned()] {
        let mut combined = hook(move |_| answer.clone());
        let away = reviewing(|_| Err(Unavailable::new("no list yet")));
        combined.review = combined.review.and(away.review);
        combined.review = combined.review.and(hook(|_| Answer::Allow).review);
        let text = counted(combined, pod_review().to_string().into()).await;
        assert!(text.contains(&number("Partial", 1)), "{text}");
    }
}

/// So that `rate` includes the first of them.
#[tokio::test]
async fn failures_are_counted_from_zero() {
    let text = counted(hook(|_| Answer::Allow), pod_review().to_string().into()).await;
    for verdict in ["Unavailable", "Unreadable", "Partial", "Abandoned"] {
        assert!(text.contains(&number(verdict, 0)), "{verdict}: {text}");
    }
}

/// The server drops a review when the API server closes the connection.
#[tokio::test(start_paused = true)]
async fn an_abandoned_review_is_counted_and_measured() {
    let options = options(false);
    let request = HttpRequest::post("/hook").body(silence());
    let router = router(vec![hook(|_| Answer::Allow)], &options);
    let review = router.oneshot(request.expect("a request"));
    let answered = tokio::time::timeout(TIMEOUT / 2, review).await;
    answered.expect_err("it is dropped");
    let text = options.metrics.text();
    assert!(text.contains(&number("Abandoned", 1)), "{text}");
    let duration = "volume_warden_admission_duration_seconds";
    for line in [
        format!("{duration}_count{{path=\"/hook\"}} 1\n"),
        format!("{duration}_sum{{path=\"/hook\"}} 0.5"),
    ] {
        assert!(text.contains(&line), "{line}: {text}");
    }
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
    let read = |request: &Request| {
        let pod = request.object::<crate::objects::pod::PodWire>();
        pod.map(|_| Answer::Allow)
    };
    for object in [
        json!(null),
        json!("pod"),
        json!({"metadata": {"finalizers": 3}}),
    ] {
        let mut review = pod_review();
        review["request"]["object"] = object;
        let why = unanswered(reviewing(read), review).await;
        assert!(why.contains("object"), "{why}");
    }
}

#[tokio::test]
async fn an_invalid_review_is_a_bad_request() {
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

/// A review whose body never arrives holds a place and memory until its timeout, and no longer.
#[tokio::test(start_paused = true)]
async fn a_body_that_never_arrives_is_given_up_when_the_time_is_over() {
    let longer = Options {
        longest_timeout: Some(TIMEOUT * 20),
        ..options(false)
    };
    for (options, query, expected) in [
        (options(false), "", TIMEOUT),
        (options(false), "?timeout=300ms", TIMEOUT * 3 / 10),
        (options(false), "?timeout=30s", TIMEOUT),
        (longer, "?timeout=30s", TIMEOUT * 20),
    ] {
        let request = HttpRequest::post(format!("/hook{query}")).body(silence());
        let router = router(vec![hook(|_| Answer::Allow)], &options);
        let started = tokio::time::Instant::now();
        let response = router.oneshot(request.expect("a request")).await;
        let status = response.expect("answers").status();
        assert_eq!(status, StatusCode::REQUEST_TIMEOUT);
        let took = started.elapsed();
        assert!(
            (expected..expected + TIMEOUT / 20).contains(&took),
            "{took:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_review_may_ask_for_half_of_the_time_that_is_left() {
    let budgets = Arc::new(parking_lot::Mutex::new(Vec::new()));
    let router = {
        let budgets = budgets.clone();
        let hook = hook(move |request| {
            budgets.lock().push(request.call_budget);
            Answer::Allow
        });
        router(vec![hook], &options(false))
    };
    for query in ["?timeout=30s", "?timeout=300ms", ""] {
        let body = Body::from(pod_review().to_string());
        let request = HttpRequest::post(format!("/hook{query}")).body(body);
        let response = router.clone().oneshot(request.expect("a request")).await;
        assert_eq!(response.expect("answers").status(), StatusCode::OK);
    }
    let late = futures::stream::once(async {
        tokio::time::sleep(TIMEOUT * 4 / 10).await;
        Ok::<_, std::io::Error>(pod_review().to_string())
    });
    let request = HttpRequest::post("/hook").body(Body::from_stream(late));
    let response = router.clone().oneshot(request.expect("a request")).await;
    assert_eq!(response.expect("answers").status(), StatusCode::OK);
    let budgets = budgets.lock().clone();
    let [half, short] = [TIMEOUT / 2, TIMEOUT * 15 / 100];
    assert_eq!(budgets, [half, short, half, TIMEOUT * 3 / 10]);
}

struct Paths(Router);

impl Paths {
    fn new(paths: impl IntoIterator<Item = &'static str>) -> Self {
        let hooks = paths.into_iter().map(|path| Hook {
            path,
            ..hook(|_| Answer::Allow)
        });
        Self(router(hooks.collect(), &options(false)))
    }

    fn send(&self, path: &str, body: Body) -> tokio::task::JoinHandle<StatusCode> {
        let request = HttpRequest::post(path).body(body).expect("request");
        let response = self.0.clone().oneshot(request);
        tokio::spawn(async move { response.await.expect("answers").status() })
    }
}

/// Reviews that hold all places of one path, because they wait for the API server, do not delay the
/// reviews of another path.
#[tokio::test(start_paused = true)]
async fn a_swamped_path_leaves_the_others_alone() {
    let mut slow = hook(|_| Answer::Allow);
    slow.review = Review::WithCalls(Arc::new(|_| {
        Box::pin(async {
            tokio::time::sleep(TIMEOUT * 3 / 5).await;
            Ok(Answer::Allow)
        })
    }));
    let mut other = hook(|_| Answer::Allow);
    other.path = "/other";
    let paths = Paths(router(vec![slow, other], &options(false)));
    let review = || Body::from(pod_review().to_string());
    for _ in 0..CONCURRENT_REVIEWS {
        paths.send("/hook", review());
    }
    tokio::time::sleep(TIMEOUT / 10).await;
    let (swamped, free) = (
        paths.send("/hook", review()),
        paths.send("/other", review()),
    );
    tokio::time::sleep(TIMEOUT).await;
    assert!(free.is_finished() && !swamped.is_finished());
    assert_eq!(
        swamped.await.expect("ends"),
        StatusCode::OK,
        "once there is a place"
    );
}

/// Large bodies, for which the path has too little memory, hold neither a place nor the memory of
/// ordinary ones. A body of unknown length counts as large.
#[tokio::test(start_paused = true)]
async fn large_bodies_leave_room_for_the_ordinary_reviews_of_their_path() {
    let paths = Paths::new(["/hook"]);
    paths.send("/hook", vec![b' '; 1 << 20].into());
    for _ in 0..2 * CONCURRENT_REVIEWS {
        paths.send("/hook", silence());
    }
    tokio::time::sleep(TIMEOUT / 2).await;
    let ordinary = paths.send("/hook", pod_review().to_string().into());
    tokio::time::sleep(TIMEOUT / 4).await;
    assert!(ordinary.is_finished());
    assert_eq!(ordinary.await.expect("ends"), StatusCode::OK);
}

/// The largest bodies on all paths but one leave no room for another body of that size. An ordinary
/// body is still read at once on the remaining path.
#[tokio::test(start_paused = true)]
async fn swamped_paths_leave_room_for_the_ordinary_reviews_of_another() {
    let all = ["/a", "/b", "/c", "/d", "/e", "/f", "/g", "/other"];
    let paths = Paths::new(all);
    for path in &all[..7] {
        for _ in 0..CONCURRENT_REVIEWS {
            paths.send(path, silence());
        }
    }
    tokio::time::sleep(TIMEOUT / 2).await;
    let large = vec![b' '; BODY_LIMIT];
    let large = paths.send("/other", large.into());
    let ordinary = paths.send("/other", pod_review().to_string().into());
    tokio::time::sleep(TIMEOUT / 4).await;
    assert!(ordinary.is_finished() && !large.is_finished());
    assert_eq!(ordinary.await.expect("ends"), StatusCode::OK);
    assert_eq!(
        large.await.expect("ends"),
        StatusCode::BAD_REQUEST,
        "it was read in the end"
    );
    // A review that finds no room is refused when its timeout is over.
    let held = [0; 2].map(|_| paths.send("/a", silence()));
    let refused = paths.send("/a?timeout=500ms", silence()).await;
    assert_eq!(refused.expect("ends"), StatusCode::SERVICE_UNAVAILABLE);
    assert!(held.iter().all(|held| !held.is_finished()));
}

#[tokio::test]
async fn not_ready_is_a_failed_call() {
    let (status, why) = post_to(
        reviewing(|_| Err(Unavailable::new("no list yet"))),
        false,
        pod_review().to_string().into_bytes(),
    )
    .await;
    assert_eq!(
        (status, why.as_str()),
        (StatusCode::SERVICE_UNAVAILABLE, "no list yet\n")
    );
}
