//! What a pod waits for that has all its claims.

use super::claims::Mounted;
use crate::why::{
    Cause, Code, Evidence, Object, World,
    explain::{events, users},
};
use k8s_openapi::{
    api::core::v1::{ContainerStatus, Pod, PodCondition},
    jiff::Timestamp,
};

/// What the kubelet and the controller of attachments tell of a volume that does not come.
const NOT_MOUNTED: [&str; 2] = ["FailedAttachVolume", "FailedMount"];

/// Of a pod that does not run yet.
pub(super) fn cause(world: &World, object: &Object, pod: &Pod, mounted: &[Mounted<'_>]) -> Cause {
    let has_claims = !mounted.is_empty();
    let volumes = if has_claims {
        "All claims of the pod are bound"
    } else {
        "The pod names no claim"
    };
    if let Some(unscheduled) = users::unscheduled(pod) {
        // Bound, but where no node is that could take the pod.
        if has_claims && unscheduled.sentence.contains("volume") {
            return unscheduled;
        }
        let said = told(condition(pod, "PodScheduled"), "nothing yet");
        let sentence =
            format!("{volumes}, and no node is chosen for it. The scheduler says: {said}.");
        return at(
            object,
            sentence,
            "status.conditions[PodScheduled]",
            changed(pod, "PodScheduled"),
        );
    }
    if has_claims && let Some(cause) = not_mounted(world, object) {
        return cause;
    }
    let said = waits(pod).unwrap_or_else(|| "nothing yet".to_owned());
    let sentence = format!("{volumes}. Its node says of its containers: {said}.");
    at(
        object,
        sentence,
        "status.containerStatuses",
        changed(pod, "PodScheduled"),
    )
}

/// Of a pod that runs, or has ended, and is wanted.
pub(super) fn not_ready(object: &Object, pod: &Pod) -> Cause {
    let said = waits(pod).unwrap_or_else(|| told(condition(pod, "Ready"), "it gives no reason"));
    let sentence = format!("The pod has its volumes and is not ready: {said}.");
    at(
        object,
        sentence,
        "status.conditions[Ready]",
        changed(pod, "Ready"),
    )
}

fn at(object: &Object, sentence: String, field: &str, since: Option<Timestamp>) -> Cause {
    let evidence = Evidence::new(object.to_string(), field).since(since);
    Cause::new(Code::NoVolumeProblem, sentence, evidence).run(
        format!("kubectl describe {}", object.arguments()),
        "to see its conditions and its Events",
    )
}

fn not_mounted(world: &World, object: &Object) -> Option<Cause> {
    let event = NOT_MOUNTED
        .iter()
        .find_map(|reason| events::latest(world, object, reason)?)?;
    let sentence = format!(
        "The pod's node does not get one of its volumes: {}",
        events::sentence(&event)
    );
    let evidence = Evidence::new(object.to_string(), "Events").since(events::since(&event));
    Some(Cause::new(Code::NotMounted, sentence, evidence).run(
        format!("kubectl describe {}", object.arguments()),
        "to see all its Events; then look after the CSI driver on its node, or whoever has the volume still attached",
    ))
}

/// What the first container says that waits.
fn waits(pod: &Pod) -> Option<String> {
    let status = pod.status.as_ref()?;
    let all = [&status.init_container_statuses, &status.container_statuses];
    all.into_iter().flatten().flatten().find_map(waiting)
}

fn waiting(container: &ContainerStatus) -> Option<String> {
    let waiting = container.state.as_ref()?.waiting.as_ref()?;
    let said = waiting.message.as_ref().or(waiting.reason.as_ref())?;
    Some(said.trim_end_matches('.').to_owned())
}

fn condition<'a>(pod: &'a Pod, type_: &str) -> Option<&'a PodCondition> {
    let mut conditions = pod.status.as_ref()?.conditions.iter().flatten();
    conditions.find(|condition| condition.type_ == type_)
}

fn told(condition: Option<&PodCondition>, otherwise: &str) -> String {
    let said = condition.and_then(|condition| condition.message.as_deref());
    said.unwrap_or(otherwise).trim_end_matches('.').to_owned()
}

fn changed(pod: &Pod, type_: &str) -> Option<Timestamp> {
    let changed = condition(pod, type_)?.last_transition_time.as_ref();
    changed.map(|time| time.0)
}
