//! Explains claims that are being deleted.

use crate::{
    causes::{self, FinishedPods, Holder, NamedPod, uses},
    components::pvc_protection::PvcProtection,
    why::{
        Cause, LiveReads, Object,
        explain::{controllers, nodes::of_pod, retention, users, writers},
        read::PersistentVolumeClaim,
    },
};

/// The chain of causes for the first holder of the claim (the pods that use it, or a finalizer),
/// and one cause for each further holder and for owners none of which exists. Both are empty if
/// the pods could not be read.
pub(super) fn causes(
    reads: &LiveReads,
    object: &Object,
    claim: &PersistentVolumeClaim,
) -> (Vec<Cause>, Vec<Cause>) {
    let (name, hold) = (&object.name.name, FinishedPods::Hold);
    let Some(pods) = reads.users(object.namespace_name(), name).found() else {
        return Default::default();
    };
    let names: Vec<_> = pods.iter().map(|pod| of_pod(pod).name).collect();
    let trimmed = pods.iter().map(|pod| &pod.trimmed);
    let named: Vec<NamedPod<'_>> = names.iter().zip(trimmed).collect();
    let holders = causes::claim_holders(name, &claim.trimmed, &named, hold);
    let user = pods
        .iter()
        .filter(|pod| uses(&pod.trimmed, name, &claim.trimmed, hold))
        .min_by_key(|pod| pod.trimmed.finished);
    let cause = |holder: &Holder<'_>| writers::describe(object, holder, &claim.metadata);
    let chain = holders.first().map(|first| match (first, user) {
        (Holder::Pods(_) | Holder::FinishedPods(_), Some(pod)) => {
            users::causes(reads, cause(first), pod)
        }
        (Holder::NoPod, _) => controllers::causes(
            reads,
            cause(first),
            &PvcProtection,
            claim.metadata.deletion_timestamp.as_ref(),
        ),
        _ => vec![cause(first)],
    });
    let also = holders.iter().skip(1).map(cause);
    // An owner that does not exist does not keep the claim, but explains why the claim is being
    // deleted.
    let goes = retention::dead_owner(reads, object, claim);
    (chain.unwrap_or_default(), also.chain(goes).collect())
}
