//! The objects that may be stuck.

use super::Which;
use crate::why::{
    LiveReads, Lookup, Object, Readable, Selection,
    explain::{has_problem, may_lack_volumes},
    read::{PersistentVolume, PersistentVolumeClaim, Pod, StatefulSet},
};
use k8s_openapi::api::core::v1::Namespace;
use kube::ResourceExt;
use std::sync::Arc;

/// The namespaces that are being deleted, among those that could be read. `None` if `which` selects
/// one namespace, and it does not exist.
pub(super) fn namespaces(reads: &LiveReads, which: &Which) -> Option<Vec<Object>> {
    let all = match &which.namespace {
        Some(name) => match reads.get::<Namespace>("", name) {
            Lookup::Found(namespace) => vec![(*namespace).clone()],
            Lookup::Absent => return None,
            Lookup::Unread => Vec::new(),
        },
        None => {
            let all = reads.list::<Namespace>("", Selection::default());
            all.map(Arc::unwrap_or_clone).found().unwrap_or_default()
        }
    };
    let deleted = all
        .iter()
        .filter(|namespace| namespace.metadata.deletion_timestamp.is_some());
    let objects = deleted.map(|each| Object::namespace(&each.name_any()));
    Some(objects.collect())
}

/// Requests the claims only, and nothing that they name.
pub(super) fn request_claims(reads: &LiveReads, which: &Which) {
    drop(every::<PersistentVolumeClaim>(reads, which));
}

/// The claims that are being deleted or not Bound, and the other claims with a problem, such as a
/// volume that does not exist or is not resized.
pub(super) fn claims(reads: &LiveReads, which: &Which) -> Vec<Object> {
    let claims = every::<PersistentVolumeClaim>(reads, which);
    let objects = claims
        .iter()
        .flat_map(|claims| claims.iter())
        .filter_map(|claim| {
            let object = Object::claim(&claim.namespace()?, &claim.name_any());
            has_problem(reads, &object, claim).then_some(object)
        });
    objects.collect()
}

/// The volumes that are being deleted, and those that name a claim in `claimRef` but are not Bound.
/// If `which` selects one namespace: only volumes whose `claimRef` names a claim in it.
pub(super) fn volumes(reads: &LiveReads, which: &Which) -> Vec<Object> {
    let volumes = reads.list::<PersistentVolume>("", Selection::default());
    let volumes = volumes.found().unwrap_or_default();
    let concerned = volumes.iter().filter(|volume| {
        let spec = volume.spec.as_ref();
        let claim = spec.and_then(|spec| spec.claim_ref.as_ref());
        let namespace = claim.and_then(|claim| claim.namespace.as_deref());
        let status = volume.status.as_ref();
        let phase = status.and_then(|status| status.phase.as_deref());
        let is_normal = phase == Some("Bound") || claim.is_none();
        let deleted = volume.metadata.deletion_timestamp.is_some();
        let here = which.namespace.is_none() || which.namespace.as_deref() == namespace;
        here && (deleted || !is_normal)
    });
    concerned
        .map(|volume| Object::volume(&volume.name_any()))
        .collect()
}

/// The pods that are being deleted and name a claim; of the other pods those that are Pending, and
/// those whose phase is Running and whose volumes may not be mounted.
pub(super) fn pods(reads: &LiveReads, which: &Which) -> Vec<Object> {
    let pods = every::<Pod>(reads, which);
    let concerned = pods.iter().flat_map(|pods| pods.iter()).filter(|pod| {
        let status = pod.status.as_ref();
        let phase = status.and_then(|status| status.phase.as_deref());
        let deleted = pod.metadata.deletion_timestamp.is_some();
        if deleted {
            pod.trimmed.mounts.name_any()
        } else {
            match phase {
                None | Some("Pending") => true,
                Some("Running") => may_lack_volumes(pod),
                Some(_) => false,
            }
        }
    });
    let objects = concerned.filter_map(|pod| Some(Object::pod(&pod.namespace()?, &pod.name_any())));
    objects.collect()
}

/// The StatefulSets that may be stuck: those that are being deleted, and those whose status is
/// outdated, or does not report exactly the requested number of pods, all of them ready.
pub(super) fn sets(reads: &LiveReads, which: &Which) -> Vec<Object> {
    let sets = every::<StatefulSet>(reads, which);
    let short = sets.iter().flat_map(|sets| sets.iter()).filter(|set| {
        let wanted = i32::try_from(set.trimmed.replicas).ok();
        let complete = set.status.as_ref().is_some_and(|status| {
            let observed = status.observed_generation == set.metadata.generation;
            let ready = status.ready_replicas.unwrap_or_default();
            observed && Some(status.replicas) == wanted && Some(ready) == wanted
        });
        set.metadata.deletion_timestamp.is_some() || !complete
    });
    let objects =
        short.filter_map(|set| Some(Object::stateful_set(&set.namespace()?, &set.name_any())));
    objects.collect()
}

fn every<K: Readable>(reads: &LiveReads, which: &Which) -> Vec<Arc<Vec<K>>> {
    reads
        .every(which.namespace.as_deref())
        .found()
        .unwrap_or_default()
}
