use super::*;
use crate::admission::Review;
use serde_json::json;
use std::{cell::RefCell, sync::Once};
use tower::ServiceExt;
use tracing_subscriber::fmt::MakeWriter;

thread_local! {
    /// The log lines that this thread has written.
    static LINES: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Appends each log line to [`LINES`] of the thread that logs.
struct Lines;

impl std::io::Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        LINES.with_borrow_mut(|lines| lines.write(bytes))
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for Lines {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        Self
    }
}

/// Logs to [`LINES`] in all threads. With a subscriber for one thread only, another thread that
/// reaches a log statement first would switch that statement off for the whole process.
fn log_to_lines() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| tracing_subscriber::fmt().with_writer(Lines).init());
}

/// Returns the log lines about this number of reviews.
async fn lines(reviews: usize, body: &str) -> String {
    log_to_lines();
    LINES.take();
    let hook = Hook {
        path: "/hook",
        rules: &[crate::admission::Rule("CREATE", "pods")],
        timeout: Duration::from_secs(1),
        review: Review::from_memory(|_: &Request| Err(Unavailable::new("no list yet"))),
    };
    let options = Options {
        dry_run: false,
        longest_timeout: None,
        metrics: Arc::new(Metrics::new()),
    };
    let router = router(vec![hook], &options);
    for _ in 0..reviews {
        let request = HttpRequest::post("/hook").body(Body::from(body.to_owned()));
        let response = router.clone().oneshot(request.expect("a request")).await;
        assert!(response.expect("answers").status().as_u16() >= 400);
    }
    String::from_utf8(LINES.take()).expect("text")
}

#[tokio::test]
async fn reviews_without_an_answer_do_not_fill_the_log() {
    let review = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
        "uid": "u-1", "operation": "CREATE", "resource": {"group": "", "version": "v1", "resource": "pods"},
        "namespace": "ns", "name": "p", "object": {"metadata": {"name": "p"}}}});
    for (body, verdict) in [
        (review.to_string(), "Unavailable"),
        ("junk".to_owned(), "Unreadable"),
    ] {
        let lines = lines(100, &body).await;
        assert_eq!(lines.lines().count(), 1, "{lines}");
        assert!(lines.contains(verdict), "{lines}");
    }
}
