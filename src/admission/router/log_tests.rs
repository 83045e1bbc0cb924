use super::*;
use crate::{
    admission::{Answer, Review, Reviewed},
    telemetry::test_log::Log,
};
use serde_json::json;
use std::iter::repeat_n;
use tower::ServiceExt;

/// Returns the log lines about these reviews, each of which gets this status.
async fn lines(
    answer: fn(&Request) -> Reviewed,
    bodies: impl Iterator<Item = String>,
    is_expected: fn(StatusCode) -> bool,
) -> String {
    lines_of(false, answer, bodies, is_expected).await
}

/// Returns the same as [`lines`], with `--dry-run` if `dry_run` is true.
async fn lines_of(
    dry_run: bool,
    answer: fn(&Request) -> Reviewed,
    bodies: impl Iterator<Item = String>,
    is_expected: fn(StatusCode) -> bool,
) -> String {
    let log = Log::begin();
    let hook = Hook {
        path: "/hook",
        rules: &[crate::admission::Rule("CREATE", "pods")],
        timeout: Duration::from_secs(1),
        review: Review::from_memory(answer),
    };
    let options = Options {
        dry_run,
        longest_timeout: None,
        metrics: Arc::new(Metrics::new()),
    };
    let router = router(vec![hook], &options);
    for body in bodies {
        let request = HttpRequest::post("/hook").body(Body::from(body));
        let response = router.clone().oneshot(request.expect("a request")).await;
        assert!(is_expected(response.expect("answers").status()));
    }
    log.lines()
}

fn review(namespace: &str) -> String {
    let review = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
        "uid": "u-1", "operation": "CREATE", "resource": {"group": "", "version": "v1", "resource": "pods"},
        "namespace": namespace, "name": "p", "object": {"metadata": {"name": "p"}}}});
    review.to_string()
}

/// The refusals in one namespace do not hide those in another one.
#[tokio::test]
async fn refusals_in_one_namespace_do_not_fill_the_log() {
    let denied = |_: &Request| Ok(Answer::deny("no".to_owned()));
    let reviews = repeat_n(review("many"), 100).chain([review("few")]);
    let lines = lines(denied, reviews, |status| status == StatusCode::OK).await;
    let of = |namespace: &str| {
        let object = format!("{namespace}/p");
        lines.lines().filter(|line| line.contains(&object)).count()
    };
    assert_eq!((of("many"), of("few")), (10, 1), "{lines}");
}

/// A reason that repeats a long text of a user is truncated.
#[tokio::test]
async fn a_long_reason_is_logged_in_part() {
    let long = |_: &Request| Ok(Answer::deny("é".repeat(100_000)));
    let lines = lines(long, [review("ns")].into_iter(), |status| {
        status == StatusCode::OK
    })
    .await;
    let length = lines.len();
    assert!(lines.contains("éé") && length < 3000, "{length}");
}

/// The API server calls mutating webhooks before it validates the name.
#[tokio::test]
async fn a_long_name_is_logged_in_part() {
    let mut review: serde_json::Value = serde_json::from_str(&review("ns")).expect("JSON");
    review["request"]["name"] = "é".repeat(100_000).into();
    review["request"]["userInfo"]["username"] = "ü".repeat(100_000).into();
    let refused = |_: &Request| Ok(Answer::deny("no".to_owned()));
    let lines = lines(refused, [review.to_string()].into_iter(), |status| {
        status == StatusCode::OK
    })
    .await;
    let length = lines.len();
    assert!(lines.contains("éé") && length < 4000, "{length}");
}

#[tokio::test]
async fn reviews_without_an_answer_do_not_fill_the_log() {
    for (body, verdict) in [
        (review("ns"), "Unavailable"),
        ("junk".to_owned(), "Unreadable"),
    ] {
        let unavailable = |_: &Request| Err(Unavailable::new("no list yet"));
        let lines = lines(unavailable, repeat_n(body, 100), |status| {
            status.as_u16() >= 400
        })
        .await;
        assert_eq!(lines.lines().count(), 1, "{lines}");
        assert!(lines.contains(verdict), "{lines}");
    }
}

/// With `--dry-run`, the request is allowed, so the line does not look like a refusal.
#[tokio::test]
async fn a_refusal_in_a_dry_run_is_logged_as_one_that_would_follow() {
    let denied = |_: &Request| Ok(Answer::deny("no".to_owned()));
    let unavailable = |_: &Request| Err(Unavailable::new("no list yet"));
    let one = || [review("ns")].into_iter();
    for (dry_run, expected) in [(true, true), (false, false)] {
        let lines = lines_of(dry_run, denied, one(), |status| status == StatusCode::OK).await;
        assert!(lines.contains("Denied"), "{lines}");
        assert_eq!(lines.contains("would answer"), expected, "{lines}");
    }
    let lines = lines_of(true, unavailable, one(), |status| status.as_u16() >= 400).await;
    assert!(!lines.contains("would answer"), "{lines}");
}

/// A webhook configuration of a component that does not run, whose `failurePolicy` is Ignore, would
/// not be noticed otherwise. The path is data: before the first secret path is published, any pod
/// can send it.
#[tokio::test]
async fn reviews_for_an_unknown_path_are_logged_and_do_not_fill_the_log() {
    let log = Log::begin();
    let options = Options {
        dry_run: false,
        longest_timeout: None,
        metrics: Arc::new(Metrics::new()),
    };
    let router = router(vec![], &options);
    let path = format!("/other/{}", "x".repeat(10_000));
    for _ in 0..100 {
        let request = HttpRequest::post(&path).body(Body::from(review("ns")));
        let response = router.clone().oneshot(request.expect("a request")).await;
        assert_eq!(response.expect("answers").status(), StatusCode::NOT_FOUND);
    }
    let lines = log.lines();
    assert_eq!(lines.lines().count(), 1, "{lines}");
    assert!(
        lines.contains("WARN") && lines.contains("/other/xx"),
        "{lines}"
    );
    assert!(lines.len() < 1000, "{lines}");
}
