//! The claims that a pod names, and claims by their names.

use crate::why::{Look, Selection, World};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod, Volume};
use kube::ResourceExt;
use std::sync::Arc;

/// More than these are read in one call, with all others of the namespace.
const ONE_BY_ONE: usize = 2;

/// A volume of a pod that is a claim.
pub(super) struct Mounted<'a> {
    pub volume: &'a Volume,
    /// The claim's name.
    pub claim: String,
}

/// In the order of the pod.
pub(super) fn mounted(pod: &Pod) -> Vec<Mounted<'_>> {
    let volumes = pod.spec.iter().flat_map(|spec| &spec.volumes).flatten();
    let mounted = volumes.filter_map(|volume| {
        let claim = match (&volume.persistent_volume_claim, &volume.ephemeral) {
            (Some(source), _) => source.claim_name.clone(),
            (None, Some(_)) => format!("{}-{}", pod.name_any(), volume.name),
            (None, None) => return None,
        };
        Some(Mounted { volume, claim })
    });
    mounted.collect()
}

/// What is known of each of these claims of a namespace, in their order.
pub(in crate::why::explain) fn look<'a>(
    world: &World,
    namespace: &str,
    names: impl ExactSizeIterator<Item = &'a str>,
) -> Vec<Look<PersistentVolumeClaim>> {
    if names.len() <= ONE_BY_ONE {
        let read = names.map(|name| match world.get(namespace, name) {
            Look::Found(claim) => Look::Found(Arc::unwrap_or_clone(claim)),
            Look::Absent => Look::Absent,
            Look::Unread => Look::Unread,
        });
        return read.collect();
    }
    let all = world.list::<PersistentVolumeClaim>(namespace, Selection::default());
    let Some(all) = all.found() else {
        return names.map(|_| Look::Unread).collect();
    };
    let read = names.map(|name| {
        let claim = all.iter().find(|claim| claim.name_any() == name);
        claim.cloned().map_or(Look::Absent, Look::Found)
    });
    read.collect()
}
