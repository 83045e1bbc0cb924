//! Explains bound claims whose volume does not have the size that they request yet.
//!
//! Source: `PersistentVolumeClaimConditionType` and `ClaimResourceStatus` in
//! `staging/src/k8s.io/api/core/v1/types.go` of Kubernetes, and the external-resizer, which writes
//! them together with the kubelet.

use crate::{
    objects::quantity,
    why::{
        Cause, Code, Evidence, LiveReads, Object,
        explain::{events, nodes, quote},
        read::PersistentVolumeClaim,
    },
};
use k8s_openapi::api::core::v1::{Event, PersistentVolumeClaimCondition};
use kube::ResourceExt;

/// The conditions by which the external-resizer or the kubelet reports that a resize failed.
const ERRORS: [&str; 2] = ["ControllerResizeError", "NodeResizeError"];
/// The values of `status.allocatedResourceStatuses` if the requested size cannot be reached.
const INFEASIBLE: [&str; 2] = ["ControllerResizeInfeasible", "NodeResizeInfeasible"];
/// The condition of a claim whose volume has the new size, but whose file system does not have it
/// yet.
const FILE_SYSTEM: &str = "FileSystemResizePending";
/// The condition of a claim whose volume is being resized.
const RESIZING: &str = "Resizing";
/// The value of `status.allocatedResourceStatuses` once the driver has resized the volume, until
/// the kubelet expands its file system.
const NODE_PENDING: &str = "NodeResizePending";
/// The reason of the Event with which the external-resizer reports a failure.
const FAILED: &str = "VolumeResizeFailed";

/// The cause that a resize of the claim is not finished or has failed; none if the claim has the
/// requested size and no resize is reported, or if an object could not be read.
pub(super) fn cause(
    reads: &LiveReads,
    object: &Object,
    claim: &PersistentVolumeClaim,
) -> Option<Cause> {
    let status = resource_status(claim);
    let (has, wanted) = sizes(claim)?;
    if status.is_none() && conditions(claim).next().is_none() && !is_small(has, wanted) {
        return None;
    }
    let sizes = format!("has {has} and requests {wanted}");
    if let Some(cause) = failed(reads, object, claim, status, &sizes)? {
        return Some(cause);
    }
    if condition(claim, FILE_SYSTEM).is_some() || status == Some(NODE_PENDING) {
        return on_the_node(reads, object, claim, &sizes);
    }
    let resizing = condition(claim, RESIZING);
    let progress = match status {
        Some("NodeResizeInProgress") => "the kubelet resizes its file system",
        None if resizing.is_none() => {
            "neither a driver nor a kubelet has reported that it resizes the volume"
        }
        _ => "the driver of the volume resizes it",
    };
    let sentence = format!("The claim {sizes}: {progress}.");
    let evidence = Evidence::new(object.to_string(), "status.capacity.storage");
    let since = resizing.and_then(since);
    Some(pending(sentence, evidence.since(since), object))
}

fn pending(sentence: String, evidence: Evidence, object: &Object) -> Cause {
    Cause::new(Code::ResizePending, sentence, evidence).run(
        object.describe(),
        "to see the Events of the driver's external-resizer, if the size does not change soon; then check \
         that it runs",
    )
}

/// The cause that the resize failed: `Some(None)` if no failure is reported; none if the Events
/// could not be read.
fn failed(
    reads: &LiveReads,
    object: &Object,
    claim: &PersistentVolumeClaim,
    status: Option<&str>,
    sizes: &str,
) -> Option<Option<Cause>> {
    let error = ERRORS.iter().find_map(|type_| condition(claim, type_));
    let infeasible = status.filter(|status| INFEASIBLE.contains(status));
    let event = match (error, status) {
        (None, Some(NODE_PENDING)) => None,
        _ => failure_event(reads, object, claim)?,
    };
    let reported = event.as_ref().map(events::sentence);
    let said = error
        .and_then(|error| error.message.clone())
        .filter(|message| !message.is_empty())
        .or(reported)
        .or_else(|| infeasible.map(|status| format!("the status is {status}")));
    let Some(said) = said else {
        return Some(None);
    };
    let said = quote::sentence(&said);
    let sentence = format!("The claim {sizes}, and the resize failed: {said}");
    let (field, since) = match (error, infeasible, &event) {
        (Some(error), ..) => (
            format!("status.conditions[{}]", error.type_),
            self::since(error),
        ),
        (None, Some(_), _) => ("status.allocatedResourceStatuses".to_owned(), None),
        (None, None, event) => (
            format!("events[{FAILED}]"),
            event.as_ref().and_then(events::since),
        ),
    };
    let evidence = Evidence::new(object.to_string(), field).since(since);
    Some(Some(
        Cause::new(Code::ResizeFailed, sentence, evidence).run(
            object.describe(),
            "to see all Events of the claim; then fix what the driver reports or, since Kubernetes 1.32, request a \
             smaller size, which must still be larger than the present one",
        ),
    ))
}

/// The latest Event about a failure of the resize: `Some(None)` if there is none, or if a condition
/// shows that the resize was begun again or has succeeded since; none if the Events could not be
/// read.
fn failure_event(
    reads: &LiveReads,
    object: &Object,
    claim: &PersistentVolumeClaim,
) -> Option<Option<Event>> {
    let event = events::latest(reads, object, claim.uid().as_deref(), FAILED)?;
    let progress = [FILE_SYSTEM, RESIZING].into_iter();
    let progress = progress.filter_map(|type_| since(condition(claim, type_)?));
    let progress = progress.max();
    // The API server keeps Events for an hour by default, also after a later success.
    Some(event.filter(|event| {
        let times = events::last(event).zip(progress);
        times.is_none_or(|(failed, progress)| failed >= progress)
    }))
}

/// The cause that the volume has the new size and its file system does not: the kubelet of a node
/// where a pod uses the claim has to expand it.
fn on_the_node(
    reads: &LiveReads,
    object: &Object,
    claim: &PersistentVolumeClaim,
    sizes: &str,
) -> Option<Cause> {
    let pods = reads
        .users(object.namespace_name(), &object.name.name)
        .found()?;
    let user = pods
        .iter()
        .find(|pod| nodes::name_of(pod).is_some() && !pod.trimmed.finished);
    let since = condition(claim, FILE_SYSTEM).and_then(since);
    let field = format!("status.conditions[{FILE_SYSTEM}]");
    let evidence = Evidence::new(object.to_string(), field).since(since);
    let begin = format!("The claim {sizes}: its volume is expanded, its file system is not.");
    let Some(user) = user else {
        let sentence = format!(
            "{begin} The kubelet expands the file system when a pod uses the \
            claim."
        );
        let cause = Cause::new(Code::ResizePending, sentence, evidence);
        return Some(cause.wait("the file system is expanded once a pod uses the claim"));
    };
    let pod = Object::pod(object.namespace_name(), &user.name_any());
    let sentence = format!(
        "{begin} The kubelet on the node of the pod {} expands the file system.",
        user.name_any()
    );
    Some(Cause::new(Code::ResizePending, sentence, evidence).run(
        pod.describe(),
        "to see the Events of the kubelet, if the size does not change soon; a driver that cannot expand a \
         mounted file system does so when the pod is started again",
    ))
}

/// The present size and the requested one.
fn sizes(claim: &PersistentVolumeClaim) -> Option<(&str, &str)> {
    let spec = claim.spec.as_ref()?;
    let wanted = spec.resources.as_ref()?.requests.as_ref()?.get("storage")?;
    let status = claim.status.as_ref()?;
    let has = status.capacity.as_ref().and_then(|all| all.get("storage"));
    Some((has.map_or("nothing", |has| &has.0), &wanted.0))
}

fn is_small(has: &str, wanted: &str) -> bool {
    quantity::of(has) < quantity::of(wanted)
}

fn resource_status(claim: &PersistentVolumeClaim) -> Option<&str> {
    let all = claim
        .status
        .as_ref()?
        .allocated_resource_statuses
        .as_ref()?;
    all.get("storage").map(String::as_str)
}

/// The conditions about a resize that are not False.
fn conditions(
    claim: &PersistentVolumeClaim,
) -> impl Iterator<Item = &PersistentVolumeClaimCondition> {
    let all = claim.status.iter().flat_map(|status| &status.conditions);
    all.flatten().filter(|each| {
        let type_ = each.type_.as_str();
        let of_resize = ERRORS.contains(&type_) || [FILE_SYSTEM, RESIZING].contains(&type_);
        of_resize && each.status != "False"
    })
}

fn condition<'a>(
    claim: &'a PersistentVolumeClaim,
    type_: &str,
) -> Option<&'a PersistentVolumeClaimCondition> {
    conditions(claim).find(|each| each.type_ == type_)
}

fn since(condition: &PersistentVolumeClaimCondition) -> Option<k8s_openapi::jiff::Timestamp> {
    condition.last_transition_time.as_ref().map(|time| time.0)
}
