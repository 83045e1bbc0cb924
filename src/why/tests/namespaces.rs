//! Tests of namespaces that stay Terminating although no object in them is known.

use super::*;

const LEASE: &str = "kubectl describe lease kube-controller-manager -n kube-system";

/// The namespace, deleted at this time, with these finalizers in its spec and these conditions.
fn deleted(at: &str, finalizers: &Value, conditions: &Value) -> Cluster {
    let namespace = json!({
        "metadata": {"name": "shop", "deletionTimestamp": at},
        "spec": {"finalizers": finalizers},
        "status": {"phase": "Terminating", "conditions": conditions},
    });
    Cluster::default().with("/api/v1/namespaces", namespace)
}

/// The conditions of a namespace whose objects are deleted.
fn empty() -> Value {
    let types = ["NamespaceContentRemaining", "NamespaceFinalizersRemaining"];
    let conditions = types.map(|each| json!({"type": each, "status": "False"}));
    json!(conditions)
}

#[tokio::test]
async fn a_finalizer_in_the_spec_keeps_the_namespace() {
    let shop = Object::namespace("shop");
    let at = "2026-01-01T00:00:00Z";
    let origin = json!(["openshift.io/origin"]);
    let answer = deleted(at, &origin, &empty()).explained(&shop).await;
    assert_eq!(codes(&answer), [Code::ForeignFinalizer]);
    let root = answer.root().expect("a root");
    assert_eq!(root.evidence.field, "spec.finalizers");
    assert!(
        root.sentence
            .starts_with("The finalizer openshift.io/origin keeps the object.")
    );
    assert_eq!(
        command(&answer),
        "kubectl get namespace shop -o yaml --show-managed-fields"
    );
    let several = json!(["kubernetes", "openshift.io/origin", "example.com/hold"]);
    let answer = deleted(at, &several, &empty()).explained(&shop).await;
    let also: Vec<_> = answer.also.iter().map(|cause| cause.code).collect();
    assert_eq!(codes(&answer), [Code::ForeignFinalizer]);
    assert_eq!(also, [Code::ForeignFinalizer]);
}

/// kube-controller-manager may not run if it has reported nothing for a minute.
#[tokio::test]
async fn a_namespace_about_which_nothing_is_reported() {
    let shop = Object::namespace("shop");
    let finalizers = json!(["kubernetes"]);
    for (at, conditions, waits) in [
        ("2026-01-01T00:00:00Z", json!([]), false),
        ("2026-01-01T00:59:00Z", json!([]), false),
        ("2026-01-01T00:59:01Z", json!([]), true),
        ("2026-01-01T00:00:00Z", empty(), false),
    ] {
        let answer = deleted(at, &finalizers, &conditions);
        let answer = answer.explained(&shop).await;
        assert_eq!(codes(&answer), [Code::NamespaceContent], "{at}");
        let next = answer.root().map(|root| &root.next);
        let nothing = matches!(next, Some(Next::Nothing { .. }));
        assert_eq!(nothing, waits, "{at}");
        if !waits {
            assert_eq!(command(&answer), LEASE, "{at}");
        }
    }
}
