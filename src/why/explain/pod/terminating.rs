//! Explains pods that are being deleted.

use super::Causes;
use crate::{
    causes::Holder,
    why::{
        Cause, Code, Evidence, LiveReads, Object,
        explain::{nodes, writers},
        read::Pod,
    },
};
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::{ResourceExt, api::ObjectMeta};

/// When the pod was deleted. Its `deletionTimestamp` is the end of the grace period, which is
/// subtracted.
pub(in crate::why::explain) fn since(pod: &Pod) -> Option<Timestamp> {
    let ends = pod.metadata.deletion_timestamp.as_ref()?.0;
    let grace = pod.metadata.deletion_grace_period_seconds.unwrap_or(0);
    ends.checked_sub(SignedDuration::from_secs(grace)).ok()
}

/// The causes that keep a pod which is being deleted.
pub(in crate::why::explain) fn causes(reads: &LiveReads, object: &Object, pod: &Pod) -> Causes {
    let has_node = nodes::name_of(pod).is_some();
    let finalizers = || by_finalizers(object, &pod.metadata);
    let stopped = !has_node || pod.metadata.deletion_grace_period_seconds == Some(0);
    if stopped && !pod.finalizers().is_empty() {
        return first(finalizers());
    }
    let on_node = nodes::lost_node(reads, pod).or_else(|| in_grace(object, pod, reads.now));
    let causes: Vec<Cause> = on_node.into_iter().chain(finalizers()).collect();
    if causes.is_empty() {
        return (vec![ending(object, pod)], Vec::new());
    }
    first(causes)
}

/// Returns one cause for each finalizer, which says, as far as is known, what controller removes
/// it.
pub(in crate::why::explain) fn by_finalizers(object: &Object, metadata: &ObjectMeta) -> Vec<Cause> {
    let finalizers = metadata.finalizers.iter().flatten();
    finalizers
        .map(|finalizer| writers::describe(object, &Holder::Finalizer(finalizer), metadata))
        .collect()
}

/// The cause that the grace period of the pod has not ended; none after its end.
fn in_grace(object: &Object, pod: &Pod, now: Timestamp) -> Option<Cause> {
    let ends = pod.metadata.deletion_timestamp.as_ref()?.0;
    if ends <= now {
        return None;
    }
    let seconds = pod.metadata.deletion_grace_period_seconds.unwrap_or(0);
    let sentence = format!(
        "The pod is being deleted, and its containers have a grace period of {seconds} seconds to exit."
    );
    let evidence =
        Evidence::new(object.to_string(), "metadata.deletionGracePeriodSeconds").since(since(pod));
    let cause = Cause::new(Code::PodTerminating, sentence, evidence);
    Some(cause.wait(format!(
        "the pod's node stops the containers at {ends} at the latest"
    )))
}

/// The cause for a pod that still exists after its grace period. The kubelet first reports that the
/// containers have stopped, with the phase Succeeded or Failed, then unmounts the volumes, and then
/// removes the pod. It publishes no Event about a volume that it cannot unmount.
///
/// Source: `SyncTerminatedPod` and `canBeDeleted` in `pkg/kubelet` of Kubernetes.
fn ending(object: &Object, pod: &Pod) -> Cause {
    let evidence =
        Evidence::new(object.to_string(), "metadata.deletionTimestamp").since(since(pod));
    if let Some(node) = nodes::name_of(pod).filter(|_| pod.trimmed.finished) {
        let sentence = format!(
            "The pod is being deleted and all its containers have stopped, but the kubelet of its node {node} has not reported yet that it has unmounted the volumes of the pod."
        );
        return Cause::new(Code::PodTerminating, sentence, evidence).run(
            Object::new("Node", "node", "", node).describe(),
            "to see the state of the node; then look in the log of its kubelet for volumes of the \
             pod that cannot be unmounted, and examine the driver of these volumes on that node",
        );
    }
    let sentence = "The pod is being deleted, and its node has not reported yet that all its containers have stopped.";
    Cause::new(Code::PodTerminating, sentence, evidence).run(
        object.describe(),
        "to see the state of the pod's containers",
    )
}

fn first(causes: Vec<Cause>) -> Causes {
    let mut causes = causes.into_iter();
    (causes.next().into_iter().collect(), causes.collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::why::Next;
    use serde_json::json;

    /// The `deletionTimestamp` of a pod is the end of its grace period, not the time of the
    /// deletion.
    #[test]
    fn a_pod_in_its_grace_is_waited_for() {
        let pod = json!({"metadata": {
            "name": "web", "namespace": "shop", "deletionTimestamp": "2026-01-01T00:01:00Z", "deletionGracePeriodSeconds": 30,
        }});
        let pod: Pod = serde_json::from_value(pod).expect("a pod");
        let at = |time: &str| time.parse::<Timestamp>().expect("a time");
        let began = at("2026-01-01T00:00:30Z");
        assert_eq!(since(&pod), Some(began));
        let in_grace_at = |now| in_grace(&Object::pod("shop", "web"), &pod, at(now));
        assert_eq!(in_grace_at("2026-01-01T00:01:00Z"), None);
        let cause = in_grace_at("2026-01-01T00:00:50Z").expect("10 seconds are left");
        let meanwhile =
            "the pod's node stops the containers at 2026-01-01T00:01:00Z at the latest".to_owned();
        assert_eq!(cause.next, Next::Nothing { meanwhile });
        assert_eq!(cause.evidence.since, Some(began));
    }
}
