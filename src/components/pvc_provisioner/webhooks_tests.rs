//! Tests of the webhook of pvc-provisioner: its requests to the API server, and its answers.

use super::*;
use crate::{
    clock::Clock,
    cluster::{
        Access, Elector, Feed,
        test_server::{answering, answering_after, failure},
    },
    components::pvc_provisioner::{TemplatePolicy, options::Authorize, tests::TEMPLATE},
    objects::{
        ControllerId, Pod, claim::ClaimWire, claim_requests::PREFIX, managed_by::PROVISIONER_LABEL,
    },
    telemetry::Metrics,
};
use kube::Client;
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::time::Duration;

type Calls = Arc<Mutex<Vec<String>>>;

/// An API server that answers a SubjectAccessReview with `allowed` and everything else with
/// `code`.
fn api(code: u16, reason: &'static str, allowed: bool) -> (Client, Calls) {
    let calls = Calls::default();
    let log = calls.clone();
    let client = answering(move |head, _| {
        let path = head.uri.path().to_owned();
        let authorizes = path.ends_with("subjectaccessreviews");
        log.lock().push(path);
        match code {
            _ if authorizes => (
                201,
                json!({"metadata": {}, "spec": {}, "status": {"allowed": allowed}}),
            ),
            201 => (201, json!({"metadata": {}})),
            _ => failure(code, reason),
        }
    });
    (client, calls)
}

struct Scene {
    code: u16,
    reason: &'static str,
    claims: Vec<Value>,
    options: Options,
    allowed: bool,
    dry_run: bool,
    namespace: Option<String>,
    exempt: Vec<String>,
    attempts: Option<Arc<Attempts>>,
    owners: Value,
    /// The namespace of the pod.
    pods: &'static str,
}

impl Default for Scene {
    fn default() -> Self {
        Self {
            code: 201,
            reason: "",
            claims: Vec::new(),
            options: Options {
                controller_id: Default::default(),
                orphan_grace: Duration::from_secs(60),
                strict_templates: false,
                block_owner_deletion: false,
                authorize_requester: Authorize::Off,
                templates: TemplatePolicy::default(),
            },
            allowed: true,
            dry_run: false,
            namespace: None,
            exempt: Vec::new(),
            attempts: None,
            owners: json!([]),
            pods: "ns",
        }
    }
}

impl Scene {
    /// The answer of the webhook as text, and its requests to the API server.
    async fn review(self, annotations: Value, dry_run: bool) -> (String, Vec<String>) {
        let (client, calls) = api(self.code, self.reason, self.allowed);
        let answer = self.answered_with(client, annotations, dry_run).await;
        let calls = calls.lock().clone();
        (answer, calls)
    }

    async fn answered_with(self, client: Client, annotations: Value, dry_run: bool) -> String {
        let metrics = Arc::new(Metrics::new());
        // This replica does not lead: admission does not depend on leadership.
        let (_lead, leadership) = Elector::for_test();
        let claims = self.claims.into_iter();
        let claims =
            claims.map(|claim| serde_json::from_value::<ClaimWire>(claim).expect("a claim"));
        let caches = Caches {
            claims: Feed::filled(claims.collect()),
            pods: Feed::<Pod>::filled(Vec::new()),
            policy: Arc::default(),
        };
        let access = || Requesters::new(Access::new(client.clone(), metrics.clone()));
        let webhook = PodWebhook {
            attempts: self.attempts.unwrap_or_default(),
            clock: Clock::system(),
            caches,
            apply: Arc::new(Apply::new(
                client.clone(),
                leadership,
                1,
                self.dry_run,
                metrics.clone(),
            )),
            requesters: self.options.authorizes().then(access),
            options: Arc::new(self.options),
            namespace: self.namespace,
            exempt: self.exempt,
        };
        let request = json!({
            "uid": "review", "operation": "CREATE", "namespace": self.pods, "name": "p", "dryRun": dry_run, "userInfo": {"username": "jane"},
            "resource": {"group": "", "version": "v1", "resource": "pods"},
            "object": {"metadata": {"name": "p", "annotations": annotations, "ownerReferences": self.owners}, "spec": {"volumes": [
                {"name": "v", "persistentVolumeClaim": {"claimName": "c"}}, {"name": "w", "persistentVolumeClaim": {"claimName": "d"}}]}},
        });
        let request = serde_json::from_value(request).expect("a request");
        match webhook.review(&request).await.expect("an answer") {
            Answer::Allow => "allowed".to_owned(),
            Answer::Warn(sentences) => format!("warned: {}", sentences.join(" | ")),
            Answer::Deny { code, message } => format!("denied {code}: {message}"),
            other => format!("{other:?}"),
        }
    }
}

fn requesting(template: &str) -> Value {
    json!({format!("{PREFIX}v.enabled"): "true", format!("{PREFIX}v.pvc"): template})
}

const CLAIMS: &str = "/api/v1/namespaces/ns/persistentvolumeclaims";
const ACCESS: &str = "/apis/authorization.k8s.io/v1/subjectaccessreviews";

/// An API server that answers after this time, and always reports a conflict for this claim.
fn slow_api(pause: Duration, conflicts_for: &'static str) -> Client {
    answering_after(pause, move |_, manifest| {
        if manifest["metadata"]["name"] == conflicts_for {
            failure(409, "Conflict")
        } else {
            (201, json!({"metadata": {}}))
        }
    })
}

/// The answer to a pod that requests the claims `c` and `d`, if each response of the API server
/// takes so many milliseconds. The review has half a second.
async fn answered_slowly(milliseconds: u64, conflicts_for: &'static str) -> String {
    let mut annotations = requesting(TEMPLATE);
    annotations[format!("{PREFIX}w.enabled")] = json!("true");
    annotations[format!("{PREFIX}w.pvc")] = json!(TEMPLATE);
    let api = slow_api(Duration::from_millis(milliseconds), conflicts_for);
    let answer = Scene::default().answered_with(api, annotations, false);
    answer.await
}

/// The quota always conflicts for the first claim of the pod.
#[tokio::test(start_paused = true)]
async fn a_claim_leaves_the_others_their_part_of_the_time() {
    for milliseconds in [30, 60, 150] {
        let answer = answered_slowly(milliseconds, "c").await;
        assert!(answer.contains("claim \"c\""), "{answer}");
        assert!(!answer.contains("claim \"d\""), "{milliseconds}: {answer}");
    }
}

/// Only retries are limited to the part of a claim: the response for the first claim takes longer.
#[tokio::test(start_paused = true)]
async fn a_slow_response_is_waited_for() {
    let answer = answered_slowly(300, "none").await;
    assert!(!answer.contains("claim \"c\""), "{answer}");
    assert!(answer.contains("claim \"d\""), "{answer}");
}

#[tokio::test]
async fn the_claim_is_created_before_the_answer() {
    let (answer, calls) = Scene::default().review(requesting(TEMPLATE), false).await;
    assert_eq!((answer.as_str(), calls), ("allowed", vec![CLAIMS.into()]));
    let elsewhere = Scene {
        namespace: Some("other".into()),
        ..Scene::default()
    };
    let (answer, calls) = elsewhere.review(requesting(TEMPLATE), false).await;
    assert_eq!((answer.as_str(), calls.len()), ("allowed", 0));
    let exempt = Scene {
        exempt: vec!["kube-system".into(), "ns".into()],
        ..Scene::default()
    };
    let (answer, calls) = exempt.review(requesting(TEMPLATE), false).await;
    assert_eq!((answer.as_str(), calls.len()), ("allowed", 0));
    let (answer, calls) = Scene::default()
        .review(json!({"other": "annotation"}), false)
        .await;
    assert_eq!((answer.as_str(), calls.len()), ("allowed", 0));
}

#[tokio::test]
async fn a_dry_run_creates_nothing_and_reports_what_it_would_create() {
    let (answer, calls) = Scene::default().review(requesting(TEMPLATE), true).await;
    assert_eq!((answer.as_str(), calls.len()), ("allowed", 0));
    let misspelt = "apiVersion: v1\nkind: PersistentVolumeClaim\nspec:\n  storageclassName: fast\n";
    let (answer, calls) = Scene::default().review(requesting(misspelt), true).await;
    assert!(
        answer.contains("line 4, column 3") && answer.contains("spec.storageclassName"),
        "{answer}"
    );
    assert_eq!(calls.len(), 0);
    let dry = Scene {
        dry_run: true,
        ..Scene::default()
    };
    let (answer, calls) = dry.review(requesting(TEMPLATE), false).await;
    assert_eq!(
        (answer.as_str(), calls.len()),
        (
            "warned: volume-warden (dry run) would create the claim \"c\"",
            0
        )
    );
}

#[tokio::test]
async fn an_existing_claim_is_not_created_again() {
    let there = json!({"metadata": {"name": "c", "namespace": "ns", "uid": "u"}});
    let mut going = there.clone();
    going["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    let exists = Scene {
        claims: vec![there],
        ..Scene::default()
    };
    assert_eq!(
        exists.review(requesting(TEMPLATE), false).await,
        ("allowed".into(), vec![])
    );
    let stale = Scene {
        claims: vec![going],
        ..Scene::default()
    };
    let (answer, calls) = stale.review(requesting(TEMPLATE), false).await;
    assert!(
        answer.starts_with("warned: waiting for claim \"c\" to be deleted"),
        "{answer}"
    );
    assert_eq!(calls.len(), 0);
    let unknown = Scene {
        code: 409,
        reason: "AlreadyExists",
        ..Scene::default()
    };
    assert_eq!(
        unknown.review(requesting(TEMPLATE), false).await.0,
        "allowed"
    );
}

/// The API server answers with a conflict, for example, when two requests update the same quota.
#[tokio::test(start_paused = true)]
async fn a_conflict_is_retried_while_the_review_waits() {
    let conflict = Scene {
        code: 409,
        reason: "Conflict",
        ..Scene::default()
    };
    let (answer, calls) = conflict.review(requesting(TEMPLATE), false).await;
    assert!(answer.starts_with("warned: claim \"c\""), "{answer}");
    assert!(calls.len() > 10, "{calls:?}");
}

#[tokio::test]
async fn bad_templates_cause_warnings_or_refusals() {
    let strict = || Scene {
        options: Options {
            strict_templates: true,
            ..Scene::default().options
        },
        ..Scene::default()
    };
    let (answer, calls) = Scene::default()
        .review(requesting("kind: List"), false)
        .await;
    assert!(
        answer.starts_with("warned: the template of volume \"v\" cannot be used"),
        "{answer}"
    );
    assert_eq!(calls.len(), 0);
    let (answer, _) = strict().review(requesting("kind: List"), false).await;
    assert!(
        answer.starts_with("denied 422: the template of volume \"v\""),
        "{answer}"
    );
    // A pod with one good and one bad volume is refused, and no claim is created for it.
    let mut both = requesting(TEMPLATE);
    both[format!("{PREFIX}w.enabled")] = json!("true");
    let (answer, calls) = strict().review(both.clone(), false).await;
    assert!(
        answer.starts_with("denied 422") && calls.is_empty(),
        "{answer} {calls:?}"
    );
    let (answer, calls) = Scene::default().review(both, false).await;
    assert!(
        answer.starts_with("warned") && calls.len() == 1,
        "{answer} {calls:?}"
    );
    // The warning contains the message of the API server.
    for (code, refused) in [(400, true), (422, true), (403, false), (500, false)] {
        let (answer, _) = Scene { code, ..strict() }
            .review(requesting(TEMPLATE), false)
            .await;
        assert_eq!(
            answer.starts_with("denied 422"),
            refused,
            "{code}: {answer}"
        );
        let then = if refused {
            "so the pod is refused"
        } else {
            "and will be tried again"
        };
        // With 500, the API server may have stored the claim.
        let outcome = if code == 500 {
            "may not have been created"
        } else {
            "was not created"
        };
        let notice = format!("claim \"c\" for volume \"v\" {outcome}, {then}: the words");
        assert!(answer.contains(&notice), "{answer}");
    }
}

#[tokio::test]
async fn a_user_who_may_not_create_claims_gets_none() {
    let authorizing = |allowed| Scene {
        allowed,
        options: Options {
            authorize_requester: Authorize::PodCreator,
            ..Scene::default().options
        },
        ..Scene::default()
    };
    let (answer, calls) = authorizing(true).review(requesting(TEMPLATE), false).await;
    assert_eq!(
        (answer.as_str(), calls),
        ("allowed", vec![ACCESS.into(), CLAIMS.into()])
    );
    let (answer, calls) = authorizing(false).review(requesting(TEMPLATE), false).await;
    assert!(
        answer.starts_with("warned: jane may not create persistentvolumeclaims"),
        "{answer}"
    );
    assert_eq!(calls, [ACCESS]);
}

/// The pods of a ReplicaSet that another webhook refuses get no claims at their next attempts.
/// Other pods do, and so does every pod whose requester is checked, because the reconciler creates
/// none of their claims.
#[tokio::test(start_paused = true)]
async fn a_controller_whose_pods_are_refused_waits_for_its_claims() {
    let attempts = Arc::new(Attempts::default());
    let owner = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "1", "controller": true});
    let scene = |owners: Value| Scene {
        attempts: Some(attempts.clone()),
        owners,
        ..Scene::default()
    };
    for _ in 0..5 {
        let (answer, calls) = scene(json!([owner]))
            .review(requesting(TEMPLATE), false)
            .await;
        assert_eq!((answer.as_str(), calls.len()), ("allowed", 1));
        tokio::time::advance(Duration::from_secs(20)).await;
    }
    let (answer, calls) = scene(json!([owner]))
        .review(requesting(TEMPLATE), false)
        .await;
    assert!(answer.contains("ReplicaSet web"), "{answer}");
    assert_eq!(calls, [""; 0]);
    let mut exists = scene(json!([owner]));
    exists.claims = vec![json!({"metadata": {"name": "c", "namespace": "ns", "uid": "u"}})];
    let (answer, _) = exists.review(requesting(TEMPLATE), false).await;
    assert_eq!(answer, "allowed", "nothing is to be created");
    let (answer, calls) = scene(json!([])).review(requesting(TEMPLATE), false).await;
    assert_eq!((answer.as_str(), calls.len()), ("allowed", 1));
    // The author of a pod writes the uid of its controller.
    let mut elsewhere = scene(json!([owner]));
    elsewhere.pods = "another";
    let (answer, calls) = elsewhere.review(requesting(TEMPLATE), false).await;
    assert_eq!((answer.as_str(), calls.len()), ("allowed", 1));
    let mut checked = scene(json!([owner]));
    checked.options.authorize_requester = Authorize::PodCreator;
    let (answer, calls) = checked.review(requesting(TEMPLATE), false).await;
    assert_eq!((answer.as_str(), calls.len()), ("allowed", 2));
    // Only the API server can judge such a template.
    let mut strict = scene(json!([owner]));
    strict.options.strict_templates = true;
    strict.code = 422;
    let (answer, _) = strict.review(requesting(TEMPLATE), false).await;
    assert!(answer.starts_with("denied 422"), "{answer}");
}

/// Nothing creates the claim of an earlier pod again if it is deleted as left behind.
#[tokio::test]
async fn a_claim_that_may_be_deleted_soon_is_named_if_the_reconciler_creates_none() {
    let left = json!({"metadata": {"namespace": "ns", "name": "c", "uid": "1", "resourceVersion": "1",
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "labels": {PROVISIONER_LABEL: ControllerId::default().as_str()},
        "annotations": {"volume-warden.dev/awaiting-pod": "2026-01-01T00:00:00Z"}}});
    let scene = |authorize| {
        let mut scene = Scene {
            claims: vec![left.clone()],
            ..Scene::default()
        };
        scene.options.authorize_requester = authorize;
        scene
    };
    let (answer, calls) = scene(Authorize::PodCreator)
        .review(requesting(TEMPLATE), false)
        .await;
    assert!(answer.contains("re-create the pod"), "{answer}");
    assert_eq!(calls, [""; 0]);
    let (answer, _) = scene(Authorize::Off)
        .review(requesting(TEMPLATE), false)
        .await;
    assert_eq!(answer, "allowed");
}
