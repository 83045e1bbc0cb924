//! Enqueues volumes and claims for the reconciler of pv-releaser when related objects change.

use super::caches::Caches;
use crate::{
    cluster::{Change, WorkQueue},
    objects::{Claim, Namespace, ObjectName, Volume, VolumeAttachment, volume::Phase},
};
use std::sync::Arc;

/// Enqueues a volume when it changes, when its claim is created, deleted or recreated or its
/// managed-by labels change, when a VolumeAttachment no longer names it, when it is Released or
/// Bound and its StorageClass changes, and when the namespace that it is reserved in is deleted.
///
/// Enqueues a claim that waits for a volume while a parked volume waits for claims of its
/// namespace: when the claim changes, and when such a volume becomes Available.
pub fn listen(caches: &Caches, queue: &Arc<WorkQueue<ObjectName>>) {
    listen_to_volumes(caches, queue.clone());
    listen_to_waiting_claims(caches, queue.clone());
    listen_to_claims(caches, queue.clone());
    listen_to_attachments(caches, queue.clone());
    listen_to_classes(caches, queue.clone());
    listen_to_namespaces(caches, queue.clone());
}

fn listen_to_volumes(caches: &Caches, queue: Arc<WorkQueue<ObjectName>>) {
    let all = caches.clone();
    caches.volumes.listen(move |change| {
        queue.add(change.name.clone());
        let ready = |volume: &Arc<Volume>| all.is_parked(volume) && volume.phase == Phase::Other;
        let parked = change
            .new
            .filter(|new| ready(new) && !change.old.is_some_and(ready));
        if let Some(record) = parked.and_then(|volume| volume.record()) {
            let claims = all.claims_waiting_in(&record.namespace);
            claims.into_iter().for_each(|claim| queue.add(claim));
        }
    });
}

fn listen_to_waiting_claims(caches: &Caches, queue: Arc<WorkQueue<ObjectName>>) {
    let all = caches.clone();
    caches.claims.listen(move |change| {
        let waits = change.new.is_some_and(|claim| claim.awaits_volume());
        if waits && !all.parked_in(&change.name.namespace).is_empty() {
            queue.add(change.name.clone());
        }
    });
}

fn listen_to_claims(caches: &Caches, queue: Arc<WorkQueue<ObjectName>>) {
    let volumes = caches.volumes.clone();
    caches.claims.listen(move |change| {
        if affects_volume(change) {
            let volumes = volumes.read();
            let bound = volumes.names_referring_to(change.name);
            bound.for_each(|volume| queue.add(volume.clone()));
        }
    });
}

fn listen_to_attachments(caches: &Caches, queue: Arc<WorkQueue<ObjectName>>) {
    caches.attachments.listen(move |change| {
        let detached = detached_volume(change).into_iter();
        detached.for_each(|volume| queue.add(volume));
    });
}

fn listen_to_classes(caches: &Caches, queue: Arc<WorkQueue<ObjectName>>) {
    let volumes = caches.volumes.clone();
    caches.classes.listen(move |change| {
        let class = &*change.name.name;
        // For a volume that is Bound, the namespace of its claim may have to be recorded now.
        let in_use = |volume: &Volume| matches!(volume.phase, Phase::Released | Phase::Bound);
        let of_class = volumes
            .read()
            .names_where(|volume| in_use(volume) && &*volume.class == class);
        of_class.into_iter().for_each(|volume| queue.add(volume));
    });
}

/// Enqueues the volumes that are reserved for claims of a namespace whose deletion begins, or that
/// is deleted: claims of a later namespace of that name must not get them.
fn listen_to_namespaces(caches: &Caches, queue: Arc<WorkQueue<ObjectName>>) {
    let all = caches.clone();
    caches.namespaces.listen(move |change| {
        let remains = |old: &Namespace| {
            let same = |new: &Namespace| new.uid == old.uid && new.deleting == old.deleting;
            change.new.is_some_and(|new| same(new))
        };
        if change.old.is_none_or(|old| remains(old)) {
            return;
        }
        let waiting = all.waiting_in(&change.name.name).into_iter();
        let reserved = waiting.filter(|(_, volume)| !all.is_parked(volume));
        reserved.for_each(|(volume, _)| queue.add(volume));
    });
}

/// Returns whether the claim was created, deleted or recreated, or its managed-by labels changed.
fn affects_volume(change: &Change<'_, Claim>) -> bool {
    let read = |claim: &Arc<Claim>| (claim.uid.clone(), claim.rare.managed_by.clone());
    change.old.map(read) != change.new.map(read)
}

/// The volume that a VolumeAttachment no longer names.
fn detached_volume(change: &Change<'_, VolumeAttachment>) -> Option<ObjectName> {
    let before = change.old.map(|attachment| &attachment.volume)?;
    let now = change.new.map(|attachment| &attachment.volume);
    (now != Some(before)).then(|| before.clone())
}
