//! Claims that are being deleted.

use crate::{
    causes::{self, FinishedPods, Holder, NamedPod, uses},
    components::pvc_protection::PvcProtection,
    objects::{Claim, ObjectName, Pod, claim::ClaimWire, pod::PodWire},
    why::{
        Cause, Object, Selection, World,
        explain::{retention, trimmed, users, wardens, writers},
    },
};
use k8s_openapi::api::core::v1 as core;
use kube::ResourceExt;

/// What holds it, and what would go on doing so.
pub(super) fn causes(
    world: &World,
    object: &Object,
    claim: &core::PersistentVolumeClaim,
) -> (Vec<Cause>, Vec<Cause>) {
    let pods = world.list::<core::Pod>(object.namespace_name(), Selection::default());
    let kept = trimmed::<ClaimWire, Claim>(claim);
    let (Some(pods), Some(kept)) = (pods.found(), kept) else {
        return Default::default();
    };
    let pods = naming(&pods, object);
    let named: Vec<NamedPod<'_>> = pods.iter().map(|(_, name, pod)| (name, pod)).collect();
    let (name, hold) = (&object.name.name, FinishedPods::Hold);
    let holders = causes::claim_holders(name, &kept, &named, hold);
    let user = pods
        .iter()
        .filter(|(_, _, pod)| uses(pod, name, &kept, hold))
        .min_by_key(|(_, _, pod)| pod.finished);
    let cause = |holder: &Holder<'_>| writers::describe(object, holder, &claim.metadata);
    let chain = holders.first().map(|first| match (first, user) {
        (Holder::Pods(_) | Holder::FinishedPods(_), Some((pod, ..))) => {
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
    // What holds it is one thing, why it goes at all another.
    let goes = retention::dead_owner(world, object, claim);
    (chain.unwrap_or_default(), also.chain(goes).collect())
}

/// The pods that name the claim, as they are and as the rule reads them.
fn naming<'a>(pods: &'a [core::Pod], claim: &Object) -> Vec<(&'a core::Pod, ObjectName, Pod)> {
    let read = pods.iter().filter_map(|pod| {
        let kept = users::names(pod, &claim.name.name).then(|| trimmed::<PodWire, Pod>(pod))??;
        let name = ObjectName::new(pod.namespace().unwrap_or_default(), pod.name_any());
        Some((pod, name, kept))
    });
    read.collect()
}
