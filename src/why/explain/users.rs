//! Pods that use a claim.

use super::{
    nodes::{lost_node, of_pod},
    pod::terminating,
};
use crate::why::read::Pod;
use crate::why::{Cause, Code, Evidence, World};
use kube::ResourceExt;

/// That the pod uses it, and why the pod does not go.
pub(super) fn causes(world: &World, used: Cause, pod: &Pod) -> Vec<Cause> {
    let used = by_its_owner(used, pod);
    let stuck = if pod.metadata.deletion_timestamp.is_some() {
        terminating::causes(world, &of_pod(pod), pod).0
    } else if pod.rules.finished {
        // It runs nowhere.
        Vec::new()
    } else {
        lost_node(world, pod).into_iter().collect()
    };
    std::iter::once(used).chain(stuck).collect()
}

/// Deleting a pod that its owner recreates is of no use. A finished pod is not recreated, except with its job.
fn by_its_owner(used: Cause, pod: &Pod) -> Cause {
    let mut owners = pod.owner_references().iter();
    let Some(owner) = owners.find(|owner| owner.controller == Some(true)) else {
        return used;
    };
    let namespace = pod.namespace().unwrap_or_default();
    let name = owner.name.as_str();
    match owner.kind.as_str() {
        "Job" => of_a_job(used, name, &namespace),
        _ if pod.rules.finished => used,
        "StatefulSet" => used.run(
            format!("volume-warden why statefulset {name} -n {namespace}"),
            "to see what the set does with its claims: it makes the pod again if that is deleted, and scaling it down lets this claim go, with what \
             is on it if the volume's policy is Delete",
        ),
        "ReplicaSet" => {
            let (kind, name) = deployment(pod, name).map_or(("replicaset", name), |name| ("deployment", name));
            used.run(
                format!("kubectl scale {kind} {name} -n {namespace} --replicas=0"),
                format!(
                    "once neither what the {kind} runs nor the data of the claim is needed: it would make the pod again if only that was \
                     deleted, and without pods the claim goes, with its storage if the volume's policy is Delete"
                ),
            )
        }
        _ => used,
    }
}

fn of_a_job(used: Cause, job: &str, namespace: &str) -> Cause {
    let when = if used.code == Code::FinishedPod {
        "once the logs of its pods are not needed"
    } else {
        "once its work has ended, or is not needed any more"
    };
    let purpose = format!(
        "{when}, nor the data of the claim: the claim is deleted after its pods, and its storage with it if the volume's policy is Delete"
    );
    used.run(format!("kubectl delete job {job} -n {namespace}"), purpose)
}

fn deployment<'a>(pod: &Pod, replica_set: &'a str) -> Option<&'a str> {
    let hash = pod.labels().get("pod-template-hash")?;
    replica_set.strip_suffix(hash.as_str())?.strip_suffix('-')
}

/// The pod has no node, and the scheduler says why.
pub(super) fn unscheduled(pod: &Pod) -> Option<Cause> {
    let object = of_pod(pod);
    if pod.spec.as_ref()?.node_name.is_some() {
        return None;
    }
    let conditions = pod
        .status
        .as_ref()
        .and_then(|status| status.conditions.as_deref());
    let scheduled = conditions
        .unwrap_or_default()
        .iter()
        .find(|each| each.type_ == "PodScheduled");
    let said = scheduled.and_then(|condition| condition.message.as_deref());
    let said = said.unwrap_or("nothing yet").trim_end_matches('.');
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
        "to see what no node offers; the claim is bound once the pod has one",
    ))
}

/// The pod names its node itself, so the scheduler passes it by, and never chooses a node for its claims.
pub(super) fn bypasses_the_scheduler(pod: &Pod) -> Option<Cause> {
    let node = pod.spec.as_ref()?.node_name.as_deref()?;
    let object = of_pod(pod);
    let sentence = format!(
        "The pod {} names its node {node} in spec.nodeName, so the scheduler passes it by and never says where the volume is to be.",
        object.name
    );
    let evidence = Evidence::new(object.to_string(), "spec.nodeName");
    Some(Cause::new(Code::PodUnscheduled, sentence, evidence).run(
        format!("kubectl get {} -o yaml", object.arguments()),
        "to see who made it so; a nodeSelector for kubernetes.io/hostname in its place lets the scheduler do its part",
    ))
}
