//! The conditions of a pod.

use crate::why::read::Pod;
use k8s_openapi::api::core::v1::PodCondition;

/// The condition that is True while the pod has a sandbox. The kubelet creates the sandbox after it
/// has mounted all volumes of the pod. Kubelets before Kubernetes 1.29 do not set the condition.
pub(super) const HAS_SANDBOX: &str = "PodReadyToStartContainers";

/// Whether the condition of the pod is True.
pub(in crate::why::explain) fn is_true(pod: &Pod, type_: &str) -> bool {
    condition(pod, type_).is_some_and(|condition| condition.status == "True")
}

/// The condition of this type; none if the pod does not have it.
pub(in crate::why::explain) fn condition<'a>(
    pod: &'a Pod,
    type_: &str,
) -> Option<&'a PodCondition> {
    let mut conditions = pod.status.as_ref()?.conditions.iter().flatten();
    conditions.find(|condition| condition.type_ == type_)
}
