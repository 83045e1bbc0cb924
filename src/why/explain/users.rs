//! Explains pods that use a claim.

use super::{
    nodes::{self, lost_node, of_pod},
    pod::{conditions::condition, terminating},
    quote, writers,
};
use crate::objects::{is_subdomain, owner_references};
use crate::why::read::Pod;
use crate::why::{Cause, Code, Evidence, LiveReads};
use kube::ResourceExt;

/// The path of the node of a pod in `managedFields`, where only a client that sets the node itself
/// is recorded.
pub(super) const NODE_NAME: [&str; 2] = ["f:spec", "f:nodeName"];

/// The chain of causes for a claim that the pod uses: `used`, which says so, with a next step for
/// the pod's controller, if it has one; then what keeps the pod, if it is being deleted or its
/// node is not ready or lost.
pub(super) fn causes(reads: &LiveReads, used: Cause, pod: &Pod) -> Vec<Cause> {
    let used = by_its_owner(used, pod);
    std::iter::once(used).chain(stuck(reads, pod)).collect()
}

/// The chain of causes for a pod that waits until the pod `other` ends: `sentence`, which says how
/// `other` blocks it, and why `other` does not end. `then` says, as a clause, what happens after
/// the end of `other`.
pub(super) fn of_other(
    reads: &LiveReads,
    other: &Pod,
    sentence: String,
    field: &str,
    then: &str,
) -> Vec<Cause> {
    let object = of_pod(other);
    let evidence = Evidence::new(object.to_string(), field)
        .since(other.creation_timestamp().map(|time| time.0));
    let used = Cause::new(Code::UsedByOtherPod, sentence, evidence).run(
        format!("kubectl get {} -o wide", object.arguments()),
        format!("to see whether that pod is needed: {then} once that pod has ended"),
    );
    std::iter::once(used).chain(stuck(reads, other)).collect()
}

/// If the pod is being deleted: the causes that keep it. Otherwise, if it has not finished: the
/// cause that its node does not answer, is not ready or does not exist. Empty if there is none.
fn stuck(reads: &LiveReads, pod: &Pod) -> Vec<Cause> {
    if pod.metadata.deletion_timestamp.is_some() {
        terminating::causes(reads, &of_pod(pod), pod).0
    } else if pod.trimmed.finished {
        // A finished pod runs on no node, so the state of its node is no cause.
        Vec::new()
    } else {
        lost_node(reads, pod).into_iter().collect()
    }
}

/// Replaces the next step, which is to delete the pod, by one for the controller of the pod,
/// because it may recreate a pod that is deleted. The step for a finished pod stays if a
/// StatefulSet or ReplicaSet controls it.
fn by_its_owner(used: Cause, pod: &Pod) -> Cause {
    let Some(owner) = owner_references::controller(pod.owner_references()) else {
        return used;
    };
    // The name in an owner reference can be any text. If it is not a valid object name, no command
    // contains it.
    if !is_subdomain(&owner.name) {
        return of_another_controller(used, pod);
    }
    let namespace = pod.namespace().unwrap_or_default();
    let name = owner.name.as_str();
    // kubectl finds a kind by its name alone, so it would find an object of Kubernetes instead of
    // that of another API with the same kind.
    match (owner_references::group(owner), owner.kind.as_str()) {
        ("batch", "Job") => of_a_job(used, name, &namespace),
        ("apps", "StatefulSet" | "ReplicaSet") if pod.trimmed.finished => used,
        ("apps", "StatefulSet") => used.run(
            format!("volume-warden why statefulset {name} -n {namespace}"),
            "to see what the StatefulSet does with its claims. The StatefulSet recreates the pod if only the pod is deleted. Scaling it down removes the \
             pod, so that this claim is deleted, with its data if the volume's policy is Delete",
        ),
        ("apps", "ReplicaSet") => {
            let (kind, name) = deployment(pod, name).map_or(("replicaset", name), |name| ("deployment", name));
            used.run(
                format!("kubectl scale {kind} {name} -n {namespace} --replicas=0"),
                format!(
                    "once neither the pods of the {kind} nor the data of the claim is needed: the {kind} would recreate the pod if only the pod was \
                     deleted, and without pods the claim is deleted, with its storage if the volume's policy is Delete"
                ),
            )
        }
        _ => of_another_controller(used, pod),
    }
}

/// The step for a controller of which it is not known what it does without the pod.
fn of_another_controller(used: Cause, pod: &Pod) -> Cause {
    let command = format!("kubectl get {} -o yaml", of_pod(pod).arguments());
    used.run(
        command,
        "to see in ownerReferences the controller of the pod, which may recreate the pod if only the pod is deleted. Once no pod uses the claim, it is \
         deleted automatically, with its storage if the volume's policy is Delete",
    )
}

fn of_a_job(used: Cause, job: &str, namespace: &str) -> Cause {
    let when = if used.code == Code::FinishedPod {
        "once neither the logs of the job's pods nor the data of the claim is needed"
    } else {
        "once the job's work has ended or is not needed, and the data of the claim is not needed either"
    };
    let purpose = format!(
        "{when} (the claim is deleted automatically when no pod uses it, and its storage too if the volume's policy is Delete)"
    );
    used.run(format!("kubectl delete job {job} -n {namespace}"), purpose)
}

fn deployment<'a>(pod: &Pod, replica_set: &'a str) -> Option<&'a str> {
    let hash = pod.labels().get("pod-template-hash")?;
    replica_set.strip_suffix(hash.as_str())?.strip_suffix('-')
}

/// The cause that the pod has no node, with the scheduler's message; none if the pod has a node.
pub(super) fn unscheduled(pod: &Pod) -> Option<Cause> {
    let object = of_pod(pod);
    if nodes::name_of(pod).is_some() {
        return None;
    }
    let scheduled = condition(pod, "PodScheduled");
    let said = scheduled.and_then(|condition| condition.message.as_deref());
    let said = quote::clause(said.unwrap_or("nothing yet"));
    let sentence = format!(
        "The pod {} has no node. The scheduler says: {said}.",
        object.name
    );
    let since = scheduled
        .and_then(|condition| condition.last_transition_time.as_ref())
        .map(|time| time.0);
    let evidence =
        Evidence::new(object.to_string(), "status.conditions[PodScheduled]").since(since);
    Some(Cause::new(Code::PodUnscheduled, sentence, evidence).run(
        object.describe(),
        "to see why no node fits the pod; the claim is bound once the pod has a node",
    ))
}

/// The cause that a client wrote the node of the pod. The scheduler ignores such a pod, so it never
/// selects a node for the pod's claims. None if the pod has no node, or one that the scheduler
/// selected, whose Binding is not recorded in `managedFields`.
pub(super) fn bypasses_the_scheduler(pod: &Pod) -> Option<Cause> {
    let node = nodes::name_of(pod)?;
    writers::writer(&pod.metadata, &NODE_NAME)?;
    let object = of_pod(pod);
    let sentence = format!(
        "The pod {} names its node {node} in spec.nodeName, so the scheduler ignores the pod and never selects a node for its volume.",
        object.name
    );
    let evidence = Evidence::new(object.to_string(), "spec.nodeName");
    Some(Cause::new(Code::PodUnscheduled, sentence, evidence).run(
        format!("kubectl get {} -o yaml --show-managed-fields", object.arguments()),
        "to see in ownerReferences and managedFields which controller or client created the pod with a nodeName; use a \
         nodeSelector for kubernetes.io/hostname instead, so that the scheduler selects the node",
    ))
}
