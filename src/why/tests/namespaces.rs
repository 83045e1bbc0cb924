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

/// Kubernetes deletes the pods of a namespace before any other object, and reports no object that
/// remains until they have ended.
#[tokio::test]
async fn a_pod_that_ends_keeps_the_namespace() {
    let at = "2026-01-01T00:00:00Z";
    let finalizers = json!(["kubernetes"]);
    let ready = json!({"conditions": [{"type": "Ready", "status": "True"}]});
    let node = json!({"metadata": {"name": "n1"}, "status": ready});
    let waits = || deleted(at, &finalizers, &json!([])).with("/api/v1/nodes", node.clone());
    let unused = || {
        json!({
            "metadata": {"name": "data", "namespace": "shop", "finalizers": ["kubernetes.io/pvc-protection"]},
            "spec": {}, "status": {"phase": "Pending"},
        })
    };
    let ending = || {
        json!({
            "metadata": {
                "name": "web", "namespace": "shop", "deletionTimestamp": "2026-01-01T02:00:00Z",
                "deletionGracePeriodSeconds": 7200,
            },
            "spec": {"containers": [], "nodeName": "n1"}, "status": {"phase": "Running"},
        })
    };
    let of_pod = [Code::NamespaceContent, Code::PodTerminating];
    let shop = Object::namespace("shop");
    for cluster in [waits().pod(ending()), waits().claim(unused()).pod(ending())] {
        let answer = cluster.explained(&shop).await;
        assert_eq!(codes(&answer), of_pod);
        let first = &answer.chain[0].sentence;
        assert!(first.contains("the pod web still exists"), "{first}");
    }
    let unread = waits().claim(unused()).without("pods");
    let answer = unread.explained(&shop).await;
    assert_eq!(codes(&answer), []);
    let alone = waits().claim(unused()).explained(&shop).await;
    assert_eq!(command(&alone), LEASE);
}
