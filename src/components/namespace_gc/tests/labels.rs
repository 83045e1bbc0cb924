//! The labels of the metrics of requests to the backend.

use super::scene::{HOUR, Scene, by_events};
use crate::backend::{Deletion, Failure, Sentence};
use std::collections::BTreeSet;
use tokio::time::sleep;

/// NS-35: the labels do not depend on the texts of failures, an absent namespace is no failure, and
/// the metrics count calls after a first login that failed.
#[tokio::test(start_paused = true)]
async fn ns_35_every_outcome_is_counted_under_its_name_alone() {
    let scene = Scene::new(by_events()).await;
    scene.have("shop");
    let failures = (0..2).flat_map(|number| {
        [
            Failure::credentials(format!("the first login failed: {number}")),
            Failure::permissions(format!("forbidden: {number}")),
            Failure::server(format!("status 50{number}")),
            Failure::transport(format!("refused by port {number}")),
            Failure::timeout(format!("late by {number} s")),
        ]
    });
    scene.storage.state().lists_fail.extend(failures);
    scene.storage.state().answers.extend([
        Ok(Deletion::Stale),
        Ok(Deletion::NotEmpty(Sentence::new("volume 7"))),
        Ok(Deletion::NotFound),
    ]);
    scene.delete("shop");
    sleep(HOUR * 10).await;
    let text = scene.metrics.text();
    let series = |name: &str| {
        let name = format!("volume_warden_{name}{{");
        let lines = text.lines().filter_map(|line| line.strip_prefix(&name));
        lines.map(str::to_owned).collect::<BTreeSet<_>>()
    };
    let listed = |outcome, count| format!("operation=\"list\",outcome=\"{outcome}\"}} {count}");
    let deleted = |outcome| format!("operation=\"delete\",outcome=\"{outcome}\"}} 1");
    let failed = [
        "Unauthorized",
        "Forbidden",
        "Server",
        "Transport",
        "Timeout",
    ];
    let expected = failed.map(|outcome| listed(outcome, 2)).into_iter();
    let expected = expected.chain([listed("Ok", 4)]);
    let expected = expected.chain(["Stale", "InUse", "NotFound", "Ok"].map(deleted));
    assert_eq!(series("backend_requests_total"), expected.collect());
    let timed = ["operation=\"delete\"} 4", "operation=\"list\"} 14"];
    let timed = timed.map(str::to_owned).into();
    assert_eq!(series("backend_request_duration_seconds_count"), timed);
    scene.shows(r#"namespaces_waiting{reason="NotEmpty"} 0"#);
    scene.shows(r#"namespaces_waiting{reason="Unavailable"} 0"#);
}
