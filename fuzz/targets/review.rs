//! Every webhook answers every body: with 400, or with a review whose patch applies to the object.

#![no_main]

use http_body_util::BodyExt as _;
use k8s_openapi::ByteString;
use kube::client::Body;
use libfuzzer_sys::fuzz_target;
use serde_json::{Value, json};
use std::{
    cell::RefCell,
    io,
    sync::{Arc, LazyLock},
};
use tokio::runtime::{Builder, Runtime};
use tower::{ServiceExt as _, service_fn};
use volume_warden::{
    admission::{Hook, Options, router},
    causes::FinishedPods,
    cluster::{Feeds, LiveGet},
    components::{pv_protection, pv_releaser, pvc_protection, pvc_provisioner, pvc_retention},
    telemetry::Metrics,
};

/// Path, operation and resource of each webhook.
const WEBHOOKS: [(&str, &str, &str); 10] = [
    ("/pvc-protection/claims", "CREATE", "persistentvolumeclaims"),
    ("/pvc-protection/pods", "CREATE", "pods"),
    ("/pvc-protection/bindings", "CREATE", "bindings"),
    (
        "/pvc-protection/deletions",
        "DELETE",
        "persistentvolumeclaims",
    ),
    ("/pv-protection/volumes", "CREATE", "persistentvolumes"),
    ("/pv-protection/bind", "UPDATE", "persistentvolumes"),
    ("/pv-releaser/volumes", "CREATE", "persistentvolumes"),
    ("/pv-releaser/claims", "CREATE", "persistentvolumeclaims"),
    ("/pvc-provisioner/marks", "CREATE", "persistentvolumeclaims"),
    ("/pvc-retention/marks", "CREATE", "persistentvolumeclaims"),
];

thread_local! {
    static SERVER: RefCell<(Runtime, axum::Router)> = RefCell::new(server());
}

// The bytes as a body, and as the object of a review.
fuzz_target!(|bytes: &[u8]| {
    for (path, operation, resource) in WEBHOOKS {
        let (code, _) = post(path, bytes.to_vec());
        assert!(matches!(code, 200 | 400 | 503), "{path}: {code}");
        if let Ok(object) = serde_json::from_slice(bytes) {
            reviewed(path, operation, resource, object);
        }
    }
});

fn reviewed(path: &str, operation: &str, resource: &str, object: Value) {
    let review = json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "request": {
            "uid": "u", "operation": operation, "namespace": "ns", "name": "o",
            "resource": {"group": "", "version": "v1", "resource": resource},
            "userInfo": {"username": "jane"}, "object": object, "oldObject": object,
        },
    });
    let (code, answer) = post(path, review.to_string().into_bytes());
    // 503 says that the webhook cannot answer; the API server then applies the failure policy.
    assert!(matches!(code, 200 | 503), "{path}: {code}");
    let answer: Value = serde_json::from_slice(&answer).unwrap_or_default();
    let patch = &answer["response"]["patch"];
    if code == 200 && !patch.is_null() {
        let patch: ByteString = serde_json::from_value(patch.clone()).expect("base64");
        let patch: json_patch::Patch = serde_json::from_slice(&patch.0).expect("a JSON patch");
        let mut object = object;
        json_patch::patch(&mut object, &patch).expect("it applies to the object");
    }
}

fn post(path: &str, body: Vec<u8>) -> (u16, Vec<u8>) {
    SERVER.with_borrow(|(runtime, router)| {
        let request = http::Request::post(path)
            .header("content-type", "application/json")
            .body(axum::body::Body::from(body))
            .expect("a request");
        runtime.block_on(async {
            let answer = router.clone().oneshot(request).await;
            let answer = answer.unwrap_or_else(|error| match error {});
            let code = answer.status().as_u16();
            let body = answer.into_body().collect().await.expect("a body");
            (code, body.to_bytes().to_vec())
        })
    })
}

fn server() -> (Runtime, axum::Router) {
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("a runtime");
    let router = runtime.block_on(async {
        let options = Options {
            dry_run: false,
            longest_timeout: None,
            metrics: METRICS.clone(),
        };
        router(hooks(), &options)
    });
    (runtime, router)
}

static METRICS: LazyLock<Arc<Metrics>> = LazyLock::new(|| Arc::new(Metrics::new()));

/// The webhooks, with empty caches and an API server that is away.
fn hooks() -> Vec<Hook> {
    let away = service_fn(|_: http::Request<Body>| async {
        Err::<http::Response<Body>, _>(io::Error::other("away"))
    });
    let client = kube::Client::new(away, "default");
    let feeds = Feeds::new(&METRICS);
    let live = Arc::new(LiveGet::new(METRICS.clone(), &client));
    let caches = pv_releaser::Caches::new(
        &feeds,
        None,
        pv_releaser::Options::default(),
    );
    let releaser = pv_releaser::VolumeWebhook {
        caches,
        identity: pv_releaser::Identity {
            namespaces: LiveGet::new(METRICS.clone(), &client),
            claims: LiveGet::new(METRICS.clone(), &client),
        },
    };
    let mut hooks = pvc_protection::hooks(&feeds.claims, &live, &feeds.pods, &[]);
    hooks.extend(pv_protection::hooks(&feeds.claims, &live, None, &Default::default()));
    hooks.extend([
        pvc_protection::deletions_hook(&feeds.pods, FinishedPods::Hold),
        pv_releaser::volume_hook(releaser),
        pv_releaser::strip_binding_hook(),
        pvc_provisioner::strip_marker_hook(),
        pvc_retention::strip_marker_hook(),
    ]);
    hooks
}
