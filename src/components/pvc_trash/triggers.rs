//! Enqueues volumes for the reconciler of pvc-trash when related objects change.

use super::{caches::Caches, copies::Copies, restore_requests::requested};
use crate::{
    cluster::{Change, WorkQueue},
    objects::{Claim, Namespace, ObjectName, Volume},
};
use std::sync::Arc;

/// Enqueues a volume when it changes; when its claim, its StorageClass, its copy or the undelete
/// window of its claim's namespace changes; and when a claim that requests it changes. Changes that
/// need no decision are skipped.
pub fn listen(caches: &Caches, copies: &Copies, queue: &Arc<WorkQueue<ObjectName>>) {
    listen_to_volumes(caches, queue.clone());
    listen_to_claims(caches, queue.clone());
    listen_to_classes(caches, queue.clone());
    listen_to_namespaces(caches, queue.clone());
    listen_to_copies(copies, queue.clone());
}

fn listen_to_volumes(caches: &Caches, queue: Arc<WorkQueue<ObjectName>>) {
    let classes = caches.classes.clone();
    caches.volumes.listen(move |change| {
        let class = |volume: &Volume| {
            classes
                .read()
                .get(&ObjectName::cluster_scoped(&*volume.class))
        };
        if change
            .new
            .is_some_and(|volume| volume.trash.is_some() || class(volume).is_some())
        {
            queue.add(change.name.clone());
        }
    });
}

fn listen_to_claims(caches: &Caches, queue: Arc<WorkQueue<ObjectName>>) {
    let volumes = caches.volumes.clone();
    caches.claims.listen(move |change| {
        if !changes_the_decision(change) {
            return;
        }
        let (claimed, named) = {
            let volumes = volumes.read();
            let claimed: Vec<_> = volumes.names_referring_to(change.name).cloned().collect();
            (claimed, change.new.and_then(|claim| requested(claim)))
        };
        let named = named.map(|volume| ObjectName::cluster_scoped(volume.to_string()));
        claimed
            .into_iter()
            .chain(named)
            .for_each(|volume| queue.add(volume));
    });
}

fn listen_to_classes(caches: &Caches, queue: Arc<WorkQueue<ObjectName>>) {
    let volumes = caches.volumes.clone();
    caches.classes.listen(move |change| {
        let class = &*change.name.name;
        let of_class = volumes.read().names_where(|volume| &*volume.class == class);
        of_class.into_iter().for_each(|volume| queue.add(volume));
    });
}

/// Enqueues the volumes that have a record and whose claim is in a namespace, when the undelete
/// window of that namespace changes.
fn listen_to_namespaces(caches: &Caches, queue: Arc<WorkQueue<ObjectName>>) {
    let Some(namespaces) = &caches.namespaces else {
        return;
    };
    let volumes = caches.volumes.clone();
    namespaces.listen(move |change| {
        let window = |namespace: &Arc<Namespace>| namespace.undelete_window.clone();
        let now = change.new.and_then(window);
        if change.old.and_then(window) == now {
            return;
        }
        let name = &change.name.name;
        let within = |volume: &Volume| {
            let claim = volume.claim_ref.as_ref();
            volume.trash.is_some() && claim.is_some_and(|claim| claim.name.namespace == *name)
        };
        let recorded = volumes.read().names_where(within);
        recorded.into_iter().for_each(|volume| queue.add(volume));
    });
}

fn listen_to_copies(copies: &Copies, queue: Arc<WorkQueue<ObjectName>>) {
    copies.feed.listen(move |change| {
        for copy in [change.old, change.new].into_iter().flatten() {
            queue.add(ObjectName::cluster_scoped(&*copy.volume));
        }
    });
}

/// Returns whether the change of a claim may change the decision about a volume. The value of the
/// annotation that Volume Warden changes until a claim is Bound does not count.
fn changes_the_decision(change: &Change<'_, Claim>) -> bool {
    change.old.map(read_by_rule) != change.new.map(read_by_rule)
}

fn read_by_rule(claim: &Arc<Claim>) -> impl PartialEq + use<'_> {
    let Claim {
        uid,
        deleting,
        phase,
        volume_name,
        rare,
        ..
    } = &**claim;
    (
        uid,
        *deleting,
        *phase,
        volume_name,
        &rare.trash,
        rare.is_announced(),
    )
}
