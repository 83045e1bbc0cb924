//! Claims that are being deleted.

use crate::{
    components::Component,
    objects::{Claim, ObjectName, Pod, claim::ClaimWire, pod::PodWire},
    pvc_protection::{FinishedPods, uses},
    why::{
        Cause, Code, Object, Selection, World,
        explain::{retention, trimmed, users, wardens, writers},
        held::{self, Named},
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
    let named: Vec<Named<'_>> = pods.iter().map(|(_, name, pod)| (name, pod)).collect();
    let mut held = held::claim(&object.name, &kept, &named, FinishedPods::Hold).into_iter();
    let first: Vec<Cause> = held.next().into_iter().collect();
    let also = held.map(|cause| writers::told(cause, &claim.metadata));
    let user = pods.iter().filter(|(_, _, pod)| {
        let counts = FinishedPods::Hold;
        uses(pod, &object.name.name, &kept, counts)
    });
    let user = user.min_by_key(|(_, _, pod)| pod.finished);
    let chain = first
        .into_iter()
        .flat_map(|cause| match (cause.code, user) {
            (Code::InUse | Code::FinishedPod, Some((pod, ..))) => users::causes(world, cause, pod),
            (Code::Unused, _) => wardens::causes(
                world,
                cause,
                Component::PvcProtection,
                claim.metadata.deletion_timestamp.as_ref(),
            ),
            _ => vec![writers::told(cause, &claim.metadata)],
        });
    // What holds it is one thing, why it goes at all another.
    let goes = retention::dead_owner(world, object, claim);
    (chain.collect(), also.chain(goes).collect())
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
