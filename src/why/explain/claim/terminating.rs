//! Claims that are being deleted.

use crate::{
    objects::{Claim, ObjectName, Pod, claim::ClaimWire, pod::PodWire},
    pvc_protection::FinishedPods,
    why::{
        Answer, Object, Selection, World,
        explain::trimmed,
        held::{self, Named},
    },
};
use k8s_openapi::api::core::v1 as core;
use kube::ResourceExt;

/// What holds it.
pub(super) fn explain(
    world: &World,
    object: &Object,
    claim: &core::PersistentVolumeClaim,
    mut answer: Answer,
) -> Answer {
    let pods = world.list::<core::Pod>(object.namespace_name(), Selection::default());
    let (Some(pods), Some(claim)) = (pods.found(), trimmed::<ClaimWire, Claim>(claim)) else {
        return answer;
    };
    let pods: Vec<(ObjectName, Pod)> = pods
        .iter()
        .filter_map(|pod| {
            let name = ObjectName::new(pod.namespace().unwrap_or_default(), pod.name_any());
            Some((name, trimmed::<PodWire, Pod>(pod)?))
        })
        .collect();
    let named: Vec<Named<'_>> = pods.iter().map(|(name, pod)| (name, pod)).collect();
    let mut causes = held::claim(&object.name, &claim, &named, FinishedPods::Hold).into_iter();
    answer.chain.extend(causes.next());
    answer.also.extend(causes);
    answer
}
