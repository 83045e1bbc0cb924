//! Every webhook of every component answers every body in time: with 400, with 503, or with a
//! valid review whose patch applies to the object.

#![no_main]

mod cluster;

use clap::Command;
use cluster::Cluster;
use http_body_util::BodyExt as _;
use k8s_openapi::ByteString;
use libfuzzer_sys::fuzz_target;
use serde_json::{Deserializer, Value, json};
use std::{cell::RefCell, collections::BTreeMap, mem, sync::Arc, time::Duration};
use time::OffsetDateTime;
use tokio::{
    runtime::{Builder, Runtime},
    time::{Instant, sleep, timeout},
};
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;
use volume_warden::{
    admission::{Options, Rule, router},
    assembly::{Assembly, Settings},
    clock::Clock,
    cluster::LeaseName,
    components, hashing,
    objects::ControllerId,
    telemetry::Metrics,
};

/// The flags of the two servers.
const FLAGS: [&[&str]; 2] = [
    &[],
    &[
        "--associate-by-storage-class=true",
        "--authorize-requester=pod-creator",
        "--strict-templates=true",
    ],
];
/// The bit of the choice that selects the user, see [`USERS`].
const USER: u8 = 6;
/// The bit of the choice that selects the server, see [`FLAGS`].
const SERVER: u8 = 7;
const USERS: [&str; 2] = [
    "jane",
    "system:serviceaccount:kube-system:statefulset-controller",
];
/// The timeout of the reviews, because the requests have no `timeout` parameter.
const TIMEOUT: Duration = Duration::from_secs(1);
/// How long a new server waits for its caches, in virtual time.
const FIRST_LISTS: Duration = Duration::from_secs(60);

thread_local! {
    static SERVERS: RefCell<[Option<Server>; 2]> = RefCell::default();
}

// Uses the bytes as a body, and as the object of a review. The byte after the object, or otherwise
// the sum of all bytes, selects the answers of the API server, the user and the flags.
fuzz_target!(|bytes: &[u8]| {
    let mut values = Deserializer::from_slice(bytes).into_iter::<Value>();
    let object = values.next().and_then(Result::ok);
    let choice = bytes.get(values.byte_offset()).filter(|_| object.is_some());
    let sum = || bytes.iter().copied().fold(0, u8::wrapping_add);
    let choice = choice.copied().unwrap_or_else(sum);
    SERVERS.with_borrow_mut(|servers| {
        let server = &mut servers[usize::from(choice >> SERVER)];
        let webhooks = server
            .get_or_insert_with(|| Server::new(choice))
            .webhooks
            .clone();
        for (path, rules) in webhooks {
            let mut ask = |body: &[u8], object: Option<&Value>| {
                // A write changes the caches, and no answer may depend on an earlier input.
                server.take_if(|server| server.cluster.was_written());
                let server = server.get_or_insert_with(|| Server::new(choice));
                server.cluster.choose(choice);
                server.review(path, body, object)
            };
            let review = object.as_ref().filter(|review| review.is_object());
            ask(
                bytes,
                review.and_then(|review| review["request"].get("object")),
            );
            for rule in rules.iter().filter(|_| object.is_some()) {
                let object = object.clone().unwrap_or_default();
                let (code, answer) = ask(&body(rule, &object, choice), Some(&object));
                assert_ne!(code, 400, "{path}");
                assert!(code != 200 || answer["response"]["uid"] == "u", "{path}");
            }
        }
    });
});

/// The review of a request with this object.
fn body(Rule(operation, resource): &Rule, object: &Value, choice: u8) -> Vec<u8> {
    let (resource, sub_resource) = resource.split_once('/').unwrap_or((resource, ""));
    let mut old = object.clone();
    if *operation == "UPDATE"
        && let Some(old) = old.as_object_mut()
    {
        // The update may be a binding.
        old.remove("status");
        let spec = old.get_mut("spec").and_then(Value::as_object_mut);
        spec.and_then(|spec| spec.remove("claimRef"));
    }
    let review = json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "request": {
            "uid": "u", "operation": operation, "namespace": "ns", "name": "o",
            "resource": {"group": "", "version": "v1", "resource": resource},
            "subResource": sub_resource,
            "userInfo": {"username": USERS[usize::from(choice >> USER & 1)]},
            "object": object, "oldObject": old,
        },
    });
    review.to_string().into_bytes()
}

/// All webhooks, with complete caches.
struct Server {
    runtime: Runtime,
    router: axum::Router,
    webhooks: Vec<(&'static str, &'static [Rule])>,
    cluster: Cluster,
}

impl Server {
    /// Builds the server that the choice selects.
    fn new(choice: u8) -> Self {
        hashing::set_key(0);
        // Virtual time: time limits end at once if all tasks wait.
        let mut runtime = Builder::new_current_thread();
        let runtime = runtime.enable_all().start_paused(true).build();
        let runtime = runtime.expect("a runtime");
        let cluster = Cluster::default();
        let metrics = Arc::new(Metrics::new());
        let flags = FLAGS[usize::from(choice >> SERVER)];
        let (router, webhooks) = runtime.block_on(async {
            let (shared, _) = settings(&cluster, &metrics, flags).share();
            let assembly = Assembly::new(components::ALL, shared).await;
            let mut assembly = assembly.expect("valid flags");
            for (_, watch) in assembly.watches() {
                tokio::spawn(watch);
            }
            let missing = assembly.not_ready_reasons();
            let wait = timeout(FIRST_LISTS, async {
                while !missing().is_empty() {
                    sleep(Duration::from_millis(1)).await;
                }
            });
            if wait.await.is_err() {
                panic!("cluster.rs answers no LIST: {}", missing().join(", "));
            }
            let hooks = mem::take(&mut assembly.webhooks);
            let webhooks = hooks.iter().map(|hook| (hook.path, hook.rules)).collect();
            let options = Options {
                dry_run: false,
                longest_timeout: None,
                metrics: metrics.clone(),
            };
            (router(hooks, &options), webhooks)
        });
        Self {
            runtime,
            router,
            webhooks,
            cluster,
        }
    }

    /// Returns the answer of a webhook and its HTTP status, and checks both. `object` is the
    /// object of the review, if there is one.
    fn review(&self, path: &str, body: &[u8], object: Option<&Value>) -> (u16, Value) {
        let request = http::Request::post(path)
            .header("content-type", "application/json")
            .body(axum::body::Body::from(body.to_vec()))
            .expect("a request");
        let (code, answer) = self.runtime.block_on(async {
            let began = Instant::now();
            let answer = self.router.clone().oneshot(request).await;
            let answer = answer.unwrap_or_else(|error| match error {});
            let code = answer.status().as_u16();
            let body = answer.into_body().collect().await.expect("a body");
            let took = began.elapsed();
            assert!(took < TIMEOUT, "{path} took {took:?}");
            (code, body.to_bytes())
        });
        // 503 says that the webhook cannot answer; the API server then applies the failure policy.
        assert!(matches!(code, 200 | 400 | 503), "{path}: {code}");
        if code != 200 {
            return (code, Value::Null);
        }
        let answer = serde_json::from_slice(&answer).expect("JSON");
        check(path, &answer, object);
        (code, answer)
    }
}

/// Checks that the answer is a valid review whose patch applies to the object.
fn check(path: &str, answer: &Value, object: Option<&Value>) {
    assert_eq!(answer["apiVersion"], "admission.k8s.io/v1", "{path}");
    assert_eq!(answer["kind"], "AdmissionReview", "{path}");
    let response = &answer["response"];
    let uid = response["uid"].as_str().expect("a uid");
    assert!(!uid.is_empty(), "{path}");
    let allowed = response["allowed"].as_bool().expect("a decision");
    let status = &response["status"];
    let denied = status["code"].is_u64() && status["message"].is_string();
    assert!(allowed || denied, "{path}: {status}");
    let Some(patch) = response.get("patch") else {
        return;
    };
    assert!(allowed, "{path}");
    assert_eq!(response["patchType"], "JSONPatch", "{path}");
    let patch: ByteString = serde_json::from_value(patch.clone()).expect("base64");
    let patch: json_patch::Patch = serde_json::from_slice(&patch.0).expect("a JSON patch");
    if let Some(mut object) = object.cloned() {
        json_patch::patch(&mut object, &patch).expect("it applies to the object");
    }
}

fn settings(cluster: &Cluster, metrics: &Arc<Metrics>, flags: &[&str]) -> Settings {
    let command = Command::new("run").no_binary_name(true);
    let all = components::ALL.iter();
    let command = all.fold(command, |command, component| component.flags(command));
    Settings {
        flags: command.get_matches_from(flags),
        client: cluster.client(),
        lease_client: cluster.client(),
        namespace: None,
        system_namespace: "volume-warden".to_owned(),
        exempt: Vec::new(),
        controller_id: ControllerId::default(),
        dry_run: false,
        max_in_flight: 1,
        lease: LeaseName {
            namespace: "volume-warden".to_owned(),
            name: "volume-warden".to_owned(),
            identity: "replica".to_owned(),
            former: None,
            labels: BTreeMap::new(),
        },
        clock: Clock::new(|| OffsetDateTime::UNIX_EPOCH),
        metrics: metrics.clone(),
        stop: CancellationToken::new(),
    }
}
