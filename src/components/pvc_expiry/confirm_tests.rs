//! Tests of the live evaluation of a claim, with a simulated API server.

use super::*;
use crate::{
    components::pvc_expiry::{restorable::Obstacle, rule::LeaveReason},
    objects::{
        expiry::{EXPIRE_UNUSED, EXPIRES_AT},
        trash::TRASH,
        undelete_window::UNDELETE_WINDOW,
    },
};
use kube::client::Body;
use serde_json::{Value, json};

const NAMESPACE: &str = "/api/v1/namespaces/shop";
const CLASS: &str = "/apis/storage.k8s.io/v1/storageclasses/fast";

/// What the API server answers to a GET of this path. The claim is due.
fn stored(path: &str) -> Value {
    match path {
        "/api/v1/namespaces/shop/pods" => {
            json!({"apiVersion": "v1", "kind": "PodList", "metadata": {}, "items": []})
        }
        "/api/v1/namespaces/shop/persistentvolumeclaims/data" => {
            let unused = json!({"type": "Unused", "status": "True",
                "lastTransitionTime": "2026-01-01T00:00:00Z"});
            json!({"metadata": {"namespace": "shop", "name": "data", "uid": "c",
                    "annotations": {EXPIRES_AT: "2026-01-28T00:00:00Z"}},
                "spec": {"volumeName": "pv"}, "status": {"phase": "Bound", "conditions": [unused]}})
        }
        "/api/v1/persistentvolumes/pv" => {
            let claim = json!({"namespace": "shop", "name": "data", "uid": "c"});
            let record = json!({"policy": "Delete", "windowSeconds": 3600, "claim": claim});
            json!({"metadata": {"name": "pv", "annotations": {TRASH: record.to_string()}},
                "spec": {"storageClassName": "fast", "persistentVolumeReclaimPolicy": "Retain",
                    "claimRef": claim},
                "status": {"phase": "Bound"}})
        }
        CLASS => json!({"metadata": {"name": "fast",
            "annotations": {EXPIRE_UNUSED: "20d", UNDELETE_WINDOW: "72h"}}}),
        NAMESPACE => json!({"metadata": {"name": "shop", "uid": "n"}}),
        "/version" => json!({}),
        _ => unreachable!("{path} is not read"),
    }
}

/// A claim that is due, unless something is changed.
struct Scene {
    /// The path of a GET, and the status and body of its answer.
    answer: (&'static str, u16, Value),
    only: Option<&'static str>,
    /// The uid that the watch shows.
    uid: &'static str,
    /// The time of this process.
    local: &'static str,
    /// The time of the API server.
    server: &'static str,
}

impl Scene {
    fn new(path: &'static str, status: u16, body: Value) -> Self {
        Self {
            answer: (path, status, body),
            only: None,
            uid: "c",
            local: "2026-02-01T00:00:00Z",
            server: "Sun, 01 Feb 2026 00:00:00 GMT",
        }
    }

    fn due() -> Self {
        Self::new("/version", 200, json!({}))
    }

    async fn confirm(self) -> Result<Decision, String> {
        let (path, status, body) = self.answer;
        let service = tower::service_fn(move |request: http::Request<Body>| {
            let (status, body) = match request.uri().path() {
                requested if requested == path => (status, body.clone()),
                requested => (200, stored(requested)),
            };
            let response = http::Response::builder()
                .status(status)
                .header(http::header::DATE, self.server)
                .body(Body::from(body.to_string().into_bytes()));
            std::future::ready(Ok::<_, std::io::Error>(response.expect("a response")))
        });
        let client = Client::new(service, "default");
        let live = Live::new(&Arc::new(Metrics::new()), &client, Vec::new(), self.only);
        let name = ObjectName::new("shop", "data");
        let local = self.local.parse().expect("a time");
        let observed = Some(Timestamp::UNIX_EPOCH);
        let confirmed = live.confirm(&name, &self.uid.into(), observed, local).await;
        let decision = confirmed.map(|confirmed| confirmed.decision);
        decision.map_err(|error| error.to_string())
    }
}

fn failure(code: u16, reason: &str) -> Value {
    json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code,
        "reason": reason})
}

/// The watch may show late that a user has opted out.
#[tokio::test]
async fn no_claim_expires_unless_a_live_read_shows_that_its_namespace_is_included() {
    let label = |value: &str| {
        json!({"metadata": {"name": "shop", "uid": "n",
            "labels": {"volume-warden.dev/exclude": value}}})
    };
    for (status, body, expected) in [
        (200, label("true"), Err("opted out")),
        (404, failure(404, "NotFound"), Err("does not exist")),
        (403, failure(403, "Forbidden"), Err("the namespace")),
        (200, label("false"), Ok(Decision::Expire)),
        (200, stored(NAMESPACE), Ok(Decision::Expire)),
    ] {
        let found = Scene::new(NAMESPACE, status, body.clone()).confirm().await;
        match expected {
            Ok(decision) => assert_eq!(found, Ok(decision), "{body}"),
            Err(part) => {
                let error = found.expect_err("an error");
                assert!(error.contains(part), "{body}: {error}");
            }
        }
    }
}

/// The permissions may not include namespaces then.
#[tokio::test]
async fn with_the_flag_namespace_no_namespace_is_read() {
    let forbidden = Scene::new(NAMESPACE, 403, failure(403, "Forbidden"));
    let scene = Scene {
        only: Some("shop"),
        ..forbidden
    };
    assert_eq!(scene.confirm().await, Ok(Decision::Expire));
}

/// The watch may show late that an administrator has disabled the trash.
#[tokio::test]
async fn the_undelete_window_of_the_class_is_read_live() {
    let annotations = json!({EXPIRE_UNUSED: "20d", UNDELETE_WINDOW: "off"});
    let off = json!({"metadata": {"name": "fast", "annotations": annotations}});
    let found = Scene::new(CLASS, 200, off).confirm().await;
    let no_window = LeaveReason::NoWindow(Obstacle::ClassWindow);
    assert_eq!(found, Ok(Decision::Cancel(Some(no_window))));
}

/// The claim expires at the end of January 27, by both clocks.
#[tokio::test]
async fn no_clock_that_is_ahead_shortens_the_wait() {
    let ahead = Scene {
        server: "Tue, 27 Jan 2026 00:00:00 GMT",
        ..Scene::due()
    };
    let behind = Scene {
        local: "2026-01-27T00:00:00Z",
        ..Scene::due()
    };
    let at = "2026-01-28T00:00:00Z".parse().expect("a time");
    for scene in [ahead, behind] {
        assert_eq!(scene.confirm().await, Ok(Decision::Wait(at)));
    }
    assert_eq!(Scene::due().confirm().await, Ok(Decision::Expire));
}

/// The watch shows an earlier claim of the name.
#[tokio::test]
async fn a_later_claim_of_the_name_does_not_expire() {
    let earlier = Scene {
        uid: "earlier",
        ..Scene::due()
    };
    let error = earlier.confirm().await.expect_err("another claim");
    assert!(error.contains("the claim was deleted"), "{error}");
}
