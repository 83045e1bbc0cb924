//! Explains claims that are being deleted.

use crate::{
    causes::{self, FinishedPods, Holder, NamedPod, uses},
    components::pvc_protection::PvcProtection,
    why::{
        Cause, Object, Selection, World,
        explain::{nodes::of_pod, retention, users, wardens, writers},
        read::{PersistentVolumeClaim, Pod},
    },
};

/// The chain of causes for the first holder of the claim, and one cause for each further holder.
pub(super) fn causes(
    world: &World,
    object: &Object,
    claim: &PersistentVolumeClaim,
) -> (Vec<Cause>, Vec<Cause>) {
    let pods = world.list::<Pod>(object.namespace_name(), Selection::default());
    let Some(pods) = pods.found() else {
        return Default::default();
    };
    let (name, hold) = (&object.name.name, FinishedPods::Hold);
    let users = || pods.iter().filter(|pod| pod.rules.names(name));
    let names: Vec<_> = users().map(|pod| of_pod(pod).name).collect();
    let named: Vec<NamedPod<'_>> = names.iter().zip(users().map(|pod| &pod.rules)).collect();
    let holders = causes::claim_holders(name, &claim.rules, &named, hold);
    let user = users()
        .filter(|pod| uses(&pod.rules, name, &claim.rules, hold))
        .min_by_key(|pod| pod.rules.finished);
    let cause = |holder: &Holder<'_>| writers::describe(object, holder, &claim.metadata);
    let chain = holders.first().map(|first| match (first, user) {
        (Holder::Pods(_) | Holder::FinishedPods(_), Some(pod)) => {
            users::causes(world, cause(first), pod)
        }
        (Holder::NoPod, _) => wardens::causes(
            world,
            cause(first),
            &PvcProtection,
            claim.metadata.deletion_timestamp.as_ref(),
        ),
        _ => vec![cause(first)],
    });
    let also = holders.iter().skip(1).map(cause);
    // A dead owner does not hold the claim. It explains why the claim is deleted at all.
    let goes = retention::dead_owner(world, object, claim);
    (chain.unwrap_or_default(), also.chain(goes).collect())
}
