//! kube-scheduler: gives a pod a node once all its claims are bound.

use super::{Call, Controller};
use crate::{
    cluster::Cluster,
    json::{claims_of, is_deleting, name, namespace, text, uid},
    view::View,
};
use serde_json::{Value, json};

/// Assigns pods to the node, as kube-scheduler does.
pub struct Scheduler;

impl Controller for Scheduler {
    const NAME: &'static str = "scheduler";
    const USER: &'static str = "system:kube-scheduler";
    const KINDS: &'static [&'static str] = &["pods", "persistentvolumeclaims"];

    fn act(&mut self, view: &View, _: &Cluster, _: u64) -> Vec<Call> {
        let pods = view.all("pods");
        pods.filter(|pod| text(pod, "/spec/nodeName").is_empty() && !is_deleting(pod))
            .filter(|pod| claims_of(pod).all(|claim| is_usable(view, pod, claim)))
            .map(|pod| bind(pod))
            .collect()
    }
}

/// Source: `pkg/scheduler/framework/plugins/volumebinding` of Kubernetes (`PreFilter`), which
/// refuses claims that are being deleted.
fn is_usable(view: &View, pod: &Value, claim: &str) -> bool {
    let claim = view.get("persistentvolumeclaims", namespace(pod), claim);
    claim.is_some_and(|claim| text(claim, "/status/phase") == "Bound" && !is_deleting(claim))
}

fn bind(pod: &Value) -> Call {
    let (namespace, name) = (namespace(pod), name(pod));
    let binding = json!({
        "apiVersion": "v1", "kind": "Binding",
        "metadata": {"name": name, "namespace": namespace, "uid": uid(pod)},
        "target": {"apiVersion": "v1", "kind": "Node", "name": "node"},
    });
    Call::create(
        format!("/api/v1/namespaces/{namespace}/pods/{name}/binding"),
        binding,
    )
}
