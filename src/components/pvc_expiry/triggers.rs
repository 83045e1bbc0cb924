//! Enqueues claims for the reconciler of pvc-expiry when related objects change.

use super::{caches::Caches, restorable};
use crate::{
    cluster::WorkQueue,
    objects::{Claim, ObjectName, StorageClass, Volume},
};
use std::sync::Arc;

/// Enqueues a claim that may expire when a change of the claim, its volume or its StorageClass may
/// let it expire or prevent that, and when a pod that names the claim is created or deleted.
pub fn listen(caches: &Caches, queue: &Arc<WorkQueue<ObjectName>>) {
    listen_to_claims(caches, queue.clone());
    listen_to_pods(caches, queue.clone());
    listen_to_volumes(caches, queue.clone());
    listen_to_classes(caches, queue.clone());
}

fn listen_to_claims(caches: &Caches, queue: Arc<WorkQueue<ObjectName>>) {
    let all = caches.clone();
    caches.claims.listen(move |change| {
        let read = |claim: &Arc<Claim>| {
            let owned = !claim.rare.owners.is_empty();
            (claim.unused, claim.rare.expiry.clone(), claim.phase, owned)
        };
        let Some(new) = change.new else { return };
        if change.old.map(read) != Some(read(new)) && all.may_expire(new) {
            queue.add(change.name.clone());
        }
    });
}

/// Only creation and deletion matter: a pod names the same claims as long as it exists.
fn listen_to_pods(caches: &Caches, queue: Arc<WorkQueue<ObjectName>>) {
    let all = caches.clone();
    caches.pods.listen(move |change| {
        if change
            .old
            .zip(change.new)
            .is_some_and(|(old, new)| old.uid == new.uid)
        {
            return;
        }
        let pods = [change.old, change.new].into_iter().flatten();
        for claim in pods.flat_map(|pod| pod.claims()) {
            let name = ObjectName::new(change.name.namespace.clone(), claim.clone());
            if all.claim(&name).is_some_and(|claim| all.may_expire(&claim)) {
                queue.add(name);
            }
        }
    });
}

fn listen_to_volumes(caches: &Caches, queue: Arc<WorkQueue<ObjectName>>) {
    let all = caches.clone();
    caches.volumes.listen(move |change| {
        let Some(claim) = change.new.and_then(|volume| volume.claimed_by()) else {
            return;
        };
        let Some(found) = all.claim(&claim.name) else {
            return;
        };
        let read = |volume: &Arc<Volume>| restorable::record(volume, &found).map(drop);
        let changed = change.old.map(read) != change.new.map(read);
        if changed && all.may_expire(&found) {
            queue.add(claim.name.clone());
        }
    });
}

fn listen_to_classes(caches: &Caches, queue: Arc<WorkQueue<ObjectName>>) {
    let all = caches.clone();
    caches.classes.listen(move |change| {
        let read = |class: &Arc<StorageClass>| {
            (class.expire_unused.clone(), class.undelete_window.clone())
        };
        let [old, new] = [change.old, change.new].map(|class| class.map(read).unwrap_or_default());
        if old != new {
            let claims = all.claims_of_class(&change.name.name);
            claims.into_iter().for_each(|claim| queue.add(claim));
        }
    });
}

#[cfg(test)]
#[path = "triggers_tests.rs"]
mod tests;
