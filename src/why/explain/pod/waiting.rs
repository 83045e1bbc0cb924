//! Explains what a pod waits for when it can use all its claims, and why it has failed or is not
//! ready.

use super::{
    claims::{self, Mounted},
    conditions::{HAS_SANDBOX, condition},
    mounting, placement,
};
use crate::why::{
    Cause, Code, Evidence, LiveReads, Object,
    explain::{nodes, quote, users},
    read::Pod,
};
use k8s_openapi::{
    api::core::v1::{ContainerStatus, PodCondition},
    jiff::Timestamp,
};

/// The reasons that the kubelet reports for waiting containers while not all volumes of their pod
/// are mounted, and until the container is created.
const MOUNTING: [&str; 2] = ["ContainerCreating", "PodInitializing"];

/// The reason with which the kubelet rejects a pod if a driver says that no further volume can be
/// attached to the node.
///
/// Source: `pkg/kubelet/volumemanager/volume_manager.go` of Kubernetes.
const TOO_MANY_VOLUMES: &str = "VolumeAttachmentLimitExceeded";

/// The chain of causes for a pod that can use all its claims and does not run yet. None if it is
/// not known whether the pod waits for a volume, because the pod's Events, for example, could not
/// be read.
pub(super) fn causes(
    reads: &LiveReads,
    object: &Object,
    pod: &Pod,
    mounted: &[Mounted<'_>],
) -> Option<Vec<Cause>> {
    let has_claims = !mounted.is_empty();
    let volumes = if has_claims {
        "All claims of the pod are bound"
    } else {
        "The pod names no claim"
    };
    if let Some(unscheduled) = users::unscheduled(pod) {
        let Some(chain) = placement::causes(reads, pod, mounted) else {
            // Not every user may read nodes.
            return Some(vec![unscheduled.run(
                object.describe(),
                "to see why no node fits the pod; it is not known whether its volumes exclude nodes",
            )]);
        };
        if !chain.is_empty() {
            return Some(chain);
        }
        let said = message_of(condition(pod, "PodScheduled"), "nothing yet");
        let sentence =
            format!("{volumes}, but no node is selected for the pod. The scheduler says: {said}.");
        let since = changed(pod, "PodScheduled");
        let field = "status.conditions[PodScheduled]";
        return Some(vec![at(object, sentence, field, since)]);
    }
    if may_lack_volumes(pod) {
        let chain = mounting::causes(reads, object, pod, mounted)?;
        if !chain.is_empty() {
            return Some(chain);
        }
        // The kubelet of a node that is not ready may not start the pod, and says nothing about it.
        if let Some(node) = nodes::lost_node(reads, pod) {
            return Some(vec![of_node(node, has_claims)]);
        }
    }
    let said = waits(pod).unwrap_or_else(|| "nothing yet".to_owned());
    let sentence = format!("{volumes}. The kubelet reports about its containers: {said}.");
    let since = changed(pod, "PodScheduled");
    Some(vec![at(
        object,
        sentence,
        "status.containerStatuses",
        since,
    )])
}

/// The cause for a pod that has failed, or whose phase is Unknown because its node does not report
/// it.
pub(super) fn ended(object: &Object, pod: &Pod) -> Cause {
    let status = pod.status.as_ref();
    let reason = status.and_then(|status| status.reason.as_deref());
    let message = status.and_then(|status| status.message.as_deref());
    let said: Vec<&str> = [reason, message].into_iter().flatten().collect();
    let said = match said.join(": ") {
        said if said.is_empty() => "its status gives no reason".to_owned(),
        said => quote::clause(&said),
    };
    let sentence = format!("The pod is {}: {said}.", super::state(pod));
    if reason == Some(TOO_MANY_VOLUMES) {
        let evidence = Evidence::new(object.to_string(), "status.reason");
        let evidence = evidence.since(changed(pod, "Ready"));
        return Cause::new(Code::TooManyVolumes, sentence, evidence).run(
            "kubectl get volumeattachments",
            "to see which volumes are attached to the node of the pod; if no controller replaces the \
             pod, delete and recreate it",
        );
    }
    at(object, sentence, "status.phase", changed(pod, "Ready"))
}

/// The chain of causes for a pod whose phase is Running and that is not ready. None if it is not
/// known whether the pod waits for a volume.
pub(super) fn not_ready(reads: &LiveReads, object: &Object, pod: &Pod) -> Option<Vec<Cause>> {
    let state = if may_lack_volumes(pod) {
        let chain = mounting::causes(reads, object, pod, &claims::mounted(pod))?;
        if !chain.is_empty() {
            return Some(chain);
        }
        "The pod is not ready"
    } else {
        "The pod has its volumes, but is not ready"
    };
    // The kubelet of a node that does not answer updates no status of the pod.
    if let Some(node) = nodes::lost_node(reads, pod) {
        return Some(vec![of_node(node, !claims::mounted(pod).is_empty())]);
    }
    let said = waits(pod)
        .unwrap_or_else(|| message_of(condition(pod, "Ready"), "its status gives no reason"));
    let field = "status.conditions[Ready]";
    let since = changed(pod, "Ready");
    Some(vec![at(object, format!("{state}: {said}."), field, since)])
}

/// The cause that the node of the pod is lost, which concerns no volume if the pod has no claims.
fn of_node(node: Cause, has_claims: bool) -> Cause {
    let code = if has_claims {
        node.code
    } else {
        Code::NoVolumeProblem
    };
    Cause { code, ..node }
}

fn at(object: &Object, sentence: String, field: &str, since: Option<Timestamp>) -> Cause {
    let evidence = Evidence::new(object.to_string(), field).since(since);
    Cause::new(Code::NoVolumeProblem, sentence, evidence).run(
        object.describe(),
        "to see the conditions and the Events of the pod",
    )
}

/// Whether the pod may wait for its volumes. The kubelet mounts all volumes before it creates the
/// sandbox, again after its node has restarted: the phase then stays Running, because the
/// containers have stopped and are to be started again. Source: `getPhase` and `SyncPod` in
/// `pkg/kubelet` of Kubernetes.
pub(in crate::why) fn may_lack_volumes(pod: &Pod) -> bool {
    match condition(pod, HAS_SANDBOX) {
        Some(sandbox) => sandbox.status != "True",
        None => !containers(pod).any(has_volumes),
    }
}

/// Whether the container shows that the volumes are mounted: it runs, or it waits for a reason
/// that the kubelet reports only after it has created the sandbox. A container that has ended shows
/// nothing, because it may have ended when its node restarted. One that waits for a reason of
/// [`MOUNTING`] shows nothing either: the reason is the same until the images are pulled.
fn has_volumes(container: &ContainerStatus) -> bool {
    let Some(state) = &container.state else {
        return false;
    };
    let waiting = state.waiting.as_ref();
    let reason = waiting.and_then(|waiting| waiting.reason.as_deref());
    state.running.is_some() || reason.is_some_and(|reason| !MOUNTING.contains(&reason))
}

/// The message, or else the reason, of the first container of the pod whose state is waiting.
fn waits(pod: &Pod) -> Option<String> {
    containers(pod).find_map(waiting)
}

/// The statuses of the containers in the order in which they start: the init containers first.
fn containers(pod: &Pod) -> impl Iterator<Item = &ContainerStatus> {
    let statuses = pod.status.iter();
    let all = statuses.flat_map(|all| [&all.init_container_statuses, &all.container_statuses]);
    all.flatten().flatten()
}

fn waiting(container: &ContainerStatus) -> Option<String> {
    let waiting = container.state.as_ref()?.waiting.as_ref()?;
    let said = waiting.message.as_ref().or(waiting.reason.as_ref())?;
    Some(quote::clause(said))
}

fn message_of(condition: Option<&PodCondition>, otherwise: &str) -> String {
    let said = condition.and_then(|condition| condition.message.as_deref());
    quote::clause(said.unwrap_or(otherwise))
}

fn changed(pod: &Pod, type_: &str) -> Option<Timestamp> {
    let changed = condition(pod, type_)?.last_transition_time.as_ref();
    changed.map(|time| time.0)
}

#[cfg(test)]
#[path = "waiting_tests.rs"]
mod tests;
