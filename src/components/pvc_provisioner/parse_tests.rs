//! Tests of the parsing of annotations, and of which pods request a claim.

use super::{
    Caches, TemplatePolicy,
    parse::{parse_claim_requests, parse_with_yields, request_for},
    reasons,
    tests::TEMPLATE,
};
use crate::{
    cluster::Feed,
    objects::{ClaimRequests, ObjectName, claim_requests::PREFIX, pod::PodWire},
};
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};
use tokio::task::yield_now;

fn claim_requests(annotations: &[(&str, &str)]) -> ClaimRequests {
    let keyed = annotations.iter();
    let annotations: Value = keyed
        .map(|(key, value)| (format!("{PREFIX}{key}"), json!(value)))
        .collect::<serde_json::Map<_, _>>()
        .into();
    let volume = |name: &str| json!({"name": name, "persistentVolumeClaim": {"claimName": format!("{name}-claim")}});
    let pod: PodWire = serde_json::from_value(json!({
        "metadata": {"name": "p", "annotations": annotations},
        "spec": {"volumes": [volume("b"), volume("a"), {"name": "scratch", "emptyDir": {}}, {"name": "own", "ephemeral": {}}]},
        "status": {"phase": "Pending"},
    }))
    .expect("a pod");
    ClaimRequests::of(&pod).expect("annotated")
}

fn parsed(annotations: &[(&str, &str)]) -> (Vec<String>, Vec<&'static str>) {
    let (claims, notices) =
        parse_claim_requests(&claim_requests(annotations), &TemplatePolicy::default());
    let claims = claims
        .iter()
        .map(|claim_request| claim_request.claim.to_string())
        .collect();
    let reasons = notices.iter().map(|notice| notice.reason).collect();
    (claims, reasons)
}

/// The API server accepts any name of a claim in a pod. In a URL, such a name is something else.
#[test]
fn a_name_that_no_claim_can_have_is_refused() {
    let annotations = format!("{PREFIX}a.enabled");
    let template = format!("{PREFIX}a.pvc");
    for (name, valid) in [("?watch=1", false), ("a/b", false), ("data", true)] {
        let volume = json!({"name": "a", "persistentVolumeClaim": {"claimName": name}});
        let pod: PodWire = serde_json::from_value(json!({
            "metadata": {"name": "p", "annotations": {&annotations: "true", &template: TEMPLATE}},
            "spec": {"volumes": [volume]},
        }))
        .expect("a pod");
        let requests = ClaimRequests::of(&pod).expect("annotated");
        let (claims, notices) = parse_claim_requests(&requests, &TemplatePolicy::default());
        assert_eq!(claims.len(), usize::from(valid), "{name}");
        let texts: Vec<_> = notices.iter().map(|notice| &*notice.sentence).collect();
        assert_eq!(texts.len(), usize::from(!valid), "{name}: {texts:?}");
        assert!(
            texts.iter().all(|text| text.contains("not a valid name")),
            "{texts:?}"
        );
    }
}

/// The parts of the test cases DP-02 to DP-12 that concern annotations.
#[test]
fn annotations_are_read() {
    let nothing: [&str; 0] = [];
    let both = [
        ("a.enabled", "true"),
        ("a.pvc", TEMPLATE),
        ("b.enabled", "true"),
        ("b.pvc", TEMPLATE),
    ];
    assert_eq!(
        parsed(&both),
        (vec!["b-claim".into(), "a-claim".into()], vec![]),
        "in the order of the volumes"
    );
    for value in ["1", "t", "T", "TRUE", "true", "True"] {
        assert_eq!(
            parsed(&[("a.enabled", value), ("a.pvc", TEMPLATE)]).0,
            ["a-claim"],
            "{value}"
        );
    }
    for value in ["0", "f", "F", "FALSE", "false", "False"] {
        assert_eq!(
            parsed(&[("a.enabled", value), ("a.pvc", TEMPLATE)]),
            (vec![], vec![]),
            "{value}"
        );
    }
    for (annotations, claims, reasons) in [
        (
            &[("a.enabled", "yes"), ("a.pvc", TEMPLATE)][..],
            &nothing[..],
            &[reasons::INVALID_ANNOTATION][..],
        ),
        (
            &[("a.enabled", " true"), ("a.pvc", TEMPLATE)],
            &[],
            &[reasons::INVALID_ANNOTATION],
        ),
        (&[("a.pvc", TEMPLATE)], &[], &[]),
        (
            &[("a.enable", "true"), ("a.pvc", TEMPLATE)],
            &[],
            &[reasons::INVALID_ANNOTATION],
        ),
        (&[("enabled", "true")], &[], &[reasons::INVALID_ANNOTATION]),
        (&[(".pvc", TEMPLATE)], &[], &[reasons::INVALID_ANNOTATION]),
        (
            &[
                ("a.enabled", "true"),
                ("b.enabled", "true"),
                ("b.pvc", TEMPLATE),
            ],
            &["b-claim"],
            &[reasons::MISSING_TEMPLATE],
        ),
        (
            &[("c.enabled", "true"), ("c.pvc", TEMPLATE)],
            &[],
            &[reasons::MISSING_VOLUME],
        ),
        (&[("c.enabled", "false"), ("c.pvc", TEMPLATE)], &[], &[]),
        (
            &[("scratch.enabled", "true"), ("scratch.pvc", TEMPLATE)],
            &[],
            &[reasons::INVALID],
        ),
        (
            &[("own.enabled", "true"), ("own.pvc", TEMPLATE)],
            &[],
            &[reasons::INVALID],
        ),
        (
            &[
                ("a.enabled", "true"),
                ("a.pvc", "spec: ["),
                ("b.enabled", "true"),
                ("b.pvc", TEMPLATE),
            ],
            &["b-claim"],
            &[reasons::INVALID],
        ),
    ] {
        let (found, notices) = parsed(annotations);
        assert_eq!(
            (&found[..], &notices[..]),
            (
                &claims
                    .iter()
                    .map(|&claim| claim.to_owned())
                    .collect::<Vec<_>>()[..],
                reasons
            ),
            "{annotations:?}"
        );
    }
}

/// A pod whose first `volumes` volumes request the claim of the same name.
fn with_volumes(volumes: usize, extra: &[(&str, &str)]) -> ClaimRequests {
    let names: Vec<_> = (0..volumes).map(|n| format!("v{n:02}")).collect();
    let enabled = names
        .iter()
        .map(|name| (format!("{PREFIX}{name}.enabled"), "true"));
    let templates = names
        .iter()
        .map(|name| (format!("{PREFIX}{name}.pvc"), TEMPLATE));
    let extra = extra
        .iter()
        .map(|(key, value)| (format!("{PREFIX}{key}"), *value));
    let annotations: BTreeMap<_, _> = enabled.chain(templates).chain(extra).collect();
    let volumes = names
        .iter()
        .map(|name| json!({"name": name, "persistentVolumeClaim": {"claimName": name}}));
    let pod: PodWire = serde_json::from_value(json!({
        "metadata": {"name": "p", "annotations": annotations},
        "spec": {"volumes": volumes.collect::<Vec<_>>()},
    }))
    .expect("a pod");
    ClaimRequests::of(&pod).expect("annotated")
}

#[test]
fn a_pod_may_request_32_claims() {
    let parsed = |volumes| {
        let requests = with_volumes(volumes, &[("typo", "true")]);
        let (claims, notices) = parse_claim_requests(&requests, &TemplatePolicy::default());
        let requested = request_for(&requests, "v00").is_some();
        let reasons: Vec<_> = notices.iter().map(|notice| notice.reason).collect();
        (claims.len(), requested, reasons)
    };
    assert_eq!(parsed(32), (32, true, vec![reasons::INVALID_ANNOTATION]));
    assert_eq!(parsed(33), (0, false, vec![reasons::TOO_MANY]));
}

#[test]
fn thousands_of_invalid_annotations_give_nine_notices() {
    let keys: Vec<_> = (0..5000).map(|n| format!("typo{n}")).collect();
    let extra: Vec<_> = keys.iter().map(|key| (key.as_str(), "true")).collect();
    let requests = with_volumes(1, &extra);
    let (claims, notices) = parse_claim_requests(&requests, &TemplatePolicy::default());
    assert_eq!((claims.len(), notices.len()), (1, 9));
    assert!(
        notices[8].sentence.starts_with("4992 more annotations"),
        "{notices:?}"
    );
}

#[test]
fn a_template_that_is_not_allowed_requests_nothing() {
    let template = TEMPLATE.replace("spec: {", "spec: {volumeName: other, ");
    assert_ne!(template, TEMPLATE);
    let annotations = [("a.enabled", "true"), ("a.pvc", &template)];
    assert_eq!(parsed(&annotations), (vec![], vec![reasons::INVALID]));
    let pods = vec![annotated("p", Some(&template), "Pending", 1)];
    assert!(requesting_pods(pods).is_empty());
}

#[test]
fn a_claim_is_requested_through_its_volume() {
    let claim_requests = claim_requests(&[
        ("a.enabled", "true"),
        ("a.pvc", "spec: ["),
        ("b.enabled", "false"),
        ("b.pvc", TEMPLATE),
    ]);
    assert_eq!(
        request_for(&claim_requests, "a-claim"),
        Some(("a", "spec: ["))
    );
    assert_eq!(request_for(&claim_requests, "b-claim"), None);
    assert_eq!(request_for(&claim_requests, "a"), None);
}

/// The requests of a pod whose volumes `a` and `b`, both with a claim requested, name the claim
/// `c`.
fn of_two_volumes(templates: &[(&str, &str)]) -> ClaimRequests {
    let volume = |name| json!({"name": name, "persistentVolumeClaim": {"claimName": "c"}});
    let annotations = ["a.enabled", "b.enabled"].map(|key| (format!("{PREFIX}{key}"), "true"));
    let templates = templates
        .iter()
        .map(|(volume, text)| (format!("{PREFIX}{volume}.pvc"), *text));
    let annotations = annotations.into_iter().chain(templates);
    let pod: PodWire = serde_json::from_value(json!({
        "metadata": {"name": "p", "annotations": annotations.collect::<BTreeMap<_, _>>()},
        "spec": {"volumes": [volume("a"), volume("b")]},
    }))
    .expect("a pod");
    ClaimRequests::of(&pod).expect("annotated")
}

/// The webhook creates the claim for the volume that has a template.
#[test]
fn a_claim_of_two_volumes_is_requested_by_the_one_with_a_template() {
    let requests = of_two_volumes(&[("b", TEMPLATE)]);
    assert_eq!(request_for(&requests, "c"), Some(("b", TEMPLATE)));
}

/// Only one of the templates can be used, whether it is valid or not.
#[test]
fn a_claim_is_requested_once_and_another_template_for_it_is_reported() {
    let larger = TEMPLATE.replace("spec: {", "spec: {volumeMode: Block, ");
    let unused = "the template of volume \"b\" is not used: claim \"c\" is requested for volume \"a\" first, with another template";
    for (first, second, claims, sentences) in [
        (TEMPLATE, TEMPLATE, &["a"][..], &[][..]),
        (TEMPLATE, &larger, &["a"], &[unused]),
        (TEMPLATE, "spec: [", &["a"], &[unused]),
        ("kind: Pod", TEMPLATE, &[], &["apiVersion", unused]),
    ] {
        let requests = of_two_volumes(&[("a", first), ("b", second)]);
        let (found, notices) = parse_claim_requests(&requests, &TemplatePolicy::default());
        let found: Vec<_> = found.iter().map(|each| &*each.volume).collect();
        assert_eq!(found, claims, "{first} {second}");
        assert_eq!(notices.len(), sentences.len(), "{notices:?}");
        for (notice, part) in notices.iter().zip(sentences) {
            assert_eq!(notice.reason, reasons::INVALID);
            assert!(notice.sentence.contains(part), "{notice:?}");
        }
    }
}

/// A pod with this template for the claim `c`, in this phase.
fn annotated(name: &str, template: Option<&str>, phase: &str, created: u32) -> PodWire {
    let mut annotations = BTreeMap::from([(format!("{PREFIX}v.enabled"), "true")]);
    annotations.extend(template.map(|text| (format!("{PREFIX}v.pvc"), text)));
    let created = format!("2026-01-01T00:{created:02}:00Z");
    let metadata = json!({
        "name": name, "namespace": "ns", "uid": name, "creationTimestamp": created, "annotations": annotations,
    });
    let volume = json!({"name": "v", "persistentVolumeClaim": {"claimName": "c"}});
    let pod =
        json!({"metadata": metadata, "spec": {"volumes": [volume]}, "status": {"phase": phase}});
    serde_json::from_value(pod).expect("a pod")
}

/// The names of the pods that request the claim, by rank.
fn requesting_pods(pods: Vec<PodWire>) -> Vec<String> {
    let caches = Caches {
        claims: Feed::filled(Vec::new()),
        pods: Feed::filled(pods),
        policy: Arc::default(),
    };
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    let claim = ObjectName::new("ns", "c");
    let users = runtime.expect("a runtime").block_on(caches.users(&claim));
    let requesting = users.iter().filter(|user| user.requested_volume.is_some());
    requesting.map(|user| user.name.to_string()).collect()
}

/// Parsing one template may take almost a millisecond, and any tenant may write such templates.
#[tokio::test]
async fn other_tasks_run_between_two_templates() {
    let turns = Arc::new(AtomicUsize::new(0));
    let count = turns.clone();
    let other = tokio::spawn(async move {
        loop {
            count.fetch_add(1, Ordering::Relaxed);
            yield_now().await;
        }
    });
    let texts: Vec<_> = (0..5).map(|n| format!("{TEMPLATE}# {n}")).collect();
    let pods = texts.iter().enumerate();
    let pods = pods.map(|(n, text)| annotated(&format!("p{n}"), Some(text), "Pending", 0));
    let caches = Caches {
        claims: Feed::filled(Vec::new()),
        pods: Feed::filled(pods.collect()),
        policy: Arc::default(),
    };
    assert_eq!(caches.users(&ObjectName::new("ns", "c")).await.len(), 5);
    assert!(turns.swap(0, Ordering::Relaxed) >= 4);
    let requests = claim_requests(&[
        ("a.enabled", "true"),
        ("a.pvc", TEMPLATE),
        ("b.enabled", "true"),
        ("b.pvc", TEMPLATE),
    ]);
    let (claims, _) = parse_with_yields(&requests, &TemplatePolicy::default()).await;
    assert_eq!(claims.len(), 2);
    assert!(turns.load(Ordering::Relaxed) >= 2);
    other.abort();
}

#[test]
fn only_a_pod_with_a_valid_template_requests_a_claim() {
    let good = Some(TEMPLATE);
    let pods = vec![
        annotated("broken", Some("spec: ["), "Pending", 1),
        annotated("broken-and-runs", Some("spec: ["), "Running", 2),
        annotated("without", None, "Pending", 3),
        annotated("later", good, "Pending", 5),
        annotated("runs", good, "Running", 4),
        // A pod that has ended requests the claim, too, although its template is not kept.
        annotated("ended", good, "Succeeded", 0),
    ];
    assert_eq!(requesting_pods(pods), ["runs", "later", "ended"]);
}

/// Parsing different texts costs time, and the pods of a workload share one text.
#[test]
fn the_number_of_parsed_templates_is_limited() {
    let many = |text: fn(u32) -> String| {
        let broken = (0..50).map(|n| annotated(&format!("p{n}"), Some(&text(n)), "Pending", n));
        let good = annotated("good", Some(TEMPLATE), "Pending", 59);
        requesting_pods(broken.chain([good]).collect())
    };
    assert_eq!(many(|_| "spec: [".to_owned()), ["good"]);
    assert!(many(|n| format!("# {n}\nspec: [")).is_empty());
}
