//! Explains the nodes of pods: those that do not answer, are not ready or do not exist.

use super::quote;
use crate::why::{Cause, Code, Evidence, LiveReads, Lookup, Object, read::Pod};
use k8s_openapi::api::core::v1::{Node, NodeCondition};
use kube::ResourceExt;

pub(super) fn of_pod(pod: &Pod) -> Object {
    Object::pod(&pod.namespace().unwrap_or_default(), &pod.name_any())
}

/// The name of the pod's node; none if it has none.
pub(super) fn name_of(pod: &Pod) -> Option<&str> {
    pod.spec.as_ref()?.node_name.as_deref()
}

/// The cause that the pod's node does not answer, is not ready or does not exist. None if the node
/// is ready, if its state is not known, or if the pod has no node.
pub(super) fn lost_node(reads: &LiveReads, pod: &Pod) -> Option<Cause> {
    let name = name_of(pod)?;
    let object = Object::new("Node", "node", "", name);
    match reads.get::<Node>("", name) {
        Lookup::Absent => {
            let sentence = format!(
                "The node {name} of the pod does not exist. Kubernetes deletes the pods of such nodes some minutes later."
            );
            let evidence = Evidence::new(of_pod(pod).to_string(), "spec.nodeName");
            let cause = Cause::new(Code::NodeLost, sentence, evidence);
            Some(cause.run(
                format!("kubectl get node {name}"),
                "to make sure that the node does not exist",
            ))
        }
        Lookup::Found(node) => {
            let ready = readiness(&node).filter(|ready| ready.status != "True")?;
            if ready.status == "False" {
                return Some(not_ready(&object, ready));
            }
            let since = ready.last_transition_time.as_ref().map(|time| time.0);
            let reason = ready.reason.as_deref().unwrap_or("no reason is given");
            let wanted = if pod.trimmed.finished {
                "no kubelet completes the deletion of the pod, which has finished"
            } else if pod.trimmed.mounts.name_any() {
                "it is unknown whether the pod still runs, and the claim is kept for it"
            } else {
                "it is unknown whether the pod still runs"
            };
            let sentence =
                format!("The node {name} of the pod does not answer ({reason}), so {wanted}.");
            let evidence = Evidence::new(object.to_string(), "status.conditions[Ready]");
            let cause = Cause::new(Code::NodeLost, sentence, evidence.since(since));
            Some(cause.run(
                object.describe(),
                "to see why the node does not answer. If its machine is certainly off, taint it \
                 with node.kubernetes.io/out-of-service=nodeshutdown:NoExecute",
            ))
        }
        Lookup::Unread => None,
    }
}

/// The cause that the kubelet of the node answers, and says that the node is not ready.
fn not_ready(node: &Object, ready: &NodeCondition) -> Cause {
    let name = &node.name.name;
    let said = ready.message.as_deref().or(ready.reason.as_deref());
    let said = quote::clause(said.unwrap_or("no reason is given"));
    let sentence = format!(
        "The node {name} of the pod is not ready, so it may be unable to start or stop containers: {said}."
    );
    let since = ready.last_transition_time.as_ref().map(|time| time.0);
    let evidence = Evidence::new(node.to_string(), "status.conditions[Ready]").since(since);
    Cause::new(Code::NodeNotReady, sentence, evidence).run(
        node.describe(),
        "to see what the node lacks, mostly its container runtime or network",
    )
}

/// Returns whether the condition Ready of the node is True.
pub(super) fn is_ready(node: &Node) -> bool {
    readiness(node).is_some_and(|ready| ready.status == "True")
}

fn readiness(node: &Node) -> Option<&NodeCondition> {
    let conditions = node.status.as_ref()?.conditions.as_deref()?;
    conditions
        .iter()
        .find(|condition| condition.type_ == "Ready")
}
