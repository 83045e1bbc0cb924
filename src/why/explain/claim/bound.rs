//! Explains claims that are bound and not being deleted.

use crate::{
    components::pvc_protection,
    objects::{finalizers::PVC_PROTECTION, namespace::has_opted_out},
    why::{
        Answer, Cause, Code, Conclusion, Evidence, LiveReads, Lookup, Object,
        explain::{
            claim::{lost, resize},
            quote, retention, reuse, webhooks,
        },
        read::{PersistentVolume, PersistentVolumeClaim},
    },
};
use k8s_openapi::api::core::v1::Namespace;
use kube::ResourceExt;

/// The condition with which Kubernetes reports that no pod uses a claim (KEP-5541).
const UNUSED: &str = "Unused";

/// Explains a problem of the claim or its volume. Without a problem, says whether the claim is kept
/// or deleted with its StatefulSet, and concludes its health.
pub(super) fn explain(
    reads: &LiveReads,
    object: &Object,
    claim: &PersistentVolumeClaim,
    answer: Answer,
) -> Answer {
    if let Some(problem) = problem(reads, object, claim) {
        return answer.because(problem);
    }
    let chain = retention::causes(reads, object, claim);
    // Volume Warden and kube-controller-manager manage the same claim. That is harmless, but not
    // healthy.
    if chain.iter().any(|cause| cause.code == Code::BothActive) {
        return answer.because(chain);
    }
    let conclusion = conclusion(reads, object, claim);
    answer.because(chain).concluding(conclusion)
}

/// The chain of causes for a bound claim, without a conclusion about its health.
pub(super) fn causes(
    reads: &LiveReads,
    object: &Object,
    claim: &PersistentVolumeClaim,
) -> Vec<Cause> {
    let problem = problem(reads, object, claim);
    problem.unwrap_or_else(|| retention::causes(reads, object, claim))
}

/// The chain of causes for the first problem of a Bound claim: it has owners, none of which exists,
/// its volume is lost or being deleted, or is not resized, or its finalizer is missing while the
/// webhook does not work. The last one comes last, because it ends when a replica runs. None
/// without a problem.
pub(super) fn problem(
    reads: &LiveReads,
    object: &Object,
    claim: &PersistentVolumeClaim,
) -> Option<Vec<Cause>> {
    let one = |cause: Cause| vec![cause];
    retention::dead_owner(reads, object, claim)
        .map(one)
        .or_else(|| volume_lost(reads, object, claim))
        .or_else(|| resize::cause(reads, object, claim).map(one))
        .or_else(|| unprotected(reads, claim).map(one))
}

/// The chain of causes if the volume of the claim does not exist, does not name this claim in its
/// `claimRef`, or is being deleted; none otherwise, or if the volume could not be read.
fn volume_lost(
    reads: &LiveReads,
    object: &Object,
    claim: &PersistentVolumeClaim,
) -> Option<Vec<Cause>> {
    let name = volume_name(claim);
    let volume = match reads.get::<PersistentVolume>("", name) {
        Lookup::Found(volume) => volume,
        Lookup::Absent => return Some(vec![lost::missing(object, name)]),
        Lookup::Unread => return None,
    };
    if !is_volume_of(&volume, claim) {
        return Some(vec![lost::misbound(object, claim, &volume)]);
    }
    let deleted = volume.metadata.deletion_timestamp.as_ref()?.0;
    let sentence = format!(
        "The claim's volume {name} is being deleted, and a deletion cannot be undone: the volume is kept only for as long as the claim is \
         bound to it."
    );
    let evidence = Evidence::new(
        Object::volume(name).to_string(),
        "metadata.deletionTimestamp",
    );
    let evidence = evidence.since(Some(deleted));
    let cause = Cause::new(Code::VolumeDeleting, sentence, evidence);
    Some(vec![reuse::rescue(&volume, cause)])
}

/// The conclusion for a claim without a known problem. It is healthy only if its volume is Bound,
/// and its status has no condition except `Unused` and no unfinished change of its
/// VolumeAttributesClass.
fn conclusion(reads: &LiveReads, object: &Object, claim: &PersistentVolumeClaim) -> Conclusion {
    let name = volume_name(claim);
    let Some(volume) = reads.get::<PersistentVolume>("", name).found() else {
        return Conclusion::nothing_found(
            object,
            "the claim, but not its volume, which could not \
            be read",
        );
    };
    let phase = volume
        .status
        .as_ref()
        .and_then(|status| status.phase.as_deref());
    let phase = phase.unwrap_or("Pending");
    match unexplained_status(claim) {
        Some(what) => Conclusion::nothing_found(object, what),
        None if phase == "Bound" => Conclusion::healthy(format!(
            "the claim and its volume {name} are bound to each other"
        )),
        None => Conclusion::nothing_found(
            object,
            format!("the claim's volume {name}, which is {phase}"),
        ),
    }
}

/// What the status of the claim reports and no rule explains: a condition, or an unfinished change
/// of the VolumeAttributesClass.
fn unexplained_status(claim: &PersistentVolumeClaim) -> Option<String> {
    let status = claim.status.clone().unwrap_or_default();
    let mut conditions = status.conditions.into_iter().flatten();
    if let Some(condition) = conditions.find(|condition| condition.type_ != UNUSED) {
        let said = quote::clause(&condition.message.unwrap_or_default());
        let (type_, status) = (condition.type_, condition.status);
        return Some(format!(
            "the claim's condition {type_}, which is {status}: {said:?}"
        ));
    }
    // The external-resizer writes `modifyVolumeStatus` only once it has begun the change.
    let wanted = claim.spec.as_ref();
    let wanted = wanted.and_then(|spec| spec.volume_attributes_class_name.as_deref());
    let wanted = wanted.filter(|wanted| !wanted.is_empty());
    let current = status.current_volume_attributes_class_name.as_deref();
    if status.modify_volume_status.is_some() || (wanted.is_some() && wanted != current) {
        return Some(
            "a change of the claim's VolumeAttributesClass, which is not finished".to_owned(),
        );
    }
    None
}

fn volume_name(claim: &PersistentVolumeClaim) -> &str {
    let spec = claim.spec.as_ref();
    let name = spec.and_then(|spec| spec.volume_name.as_deref());
    name.unwrap_or_default()
}

/// Whether the volume's `spec.claimRef` names this claim, by its uid.
fn is_volume_of(volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> bool {
    let reference = volume
        .spec
        .as_ref()
        .and_then(|spec| spec.claim_ref.as_ref());
    reference.is_some_and(|reference| reference.uid == claim.uid())
}

fn unprotected(reads: &LiveReads, claim: &PersistentVolumeClaim) -> Option<Cause> {
    if claim.finalizers().iter().any(|each| each == PVC_PROTECTION) {
        return None;
    }
    let cause = webhooks::cause(reads, &format!("volume-warden-{}", pvc_protection::NAME))?;
    // No webhook is called for a namespace that has opted out.
    let namespace = reads.get::<Namespace>("", &claim.namespace()?).found();
    let opted_out = namespace.is_some_and(|namespace| has_opted_out(&namespace.metadata));
    (!opted_out).then_some(cause)
}
