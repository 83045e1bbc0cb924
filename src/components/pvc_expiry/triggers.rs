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
    let (line, of) = (queue.clone(), caches.clone());
    caches.claims.listen(move |change| {
        let read = |claim: &Arc<Claim>| {
            let owned = !claim.rare.owners.is_empty();
            (claim.unused, claim.rare.expiry.clone(), claim.bound, owned)
        };
        let Some(new) = change.new else { return };
        if change.old.map(read) != Some(read(new)) && of.may_expire(new) {
            line.add(change.name.clone());
        }
    });
    let (line, of) = (queue.clone(), caches.clone());
    caches.pods.listen(move |change| {
        // Only creation and deletion matter: a pod names the same claims as long as it exists.
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
            if of.claim(&name).is_some_and(|claim| of.may_expire(&claim)) {
                line.add(name);
            }
        }
    });
    let (line, of) = (queue.clone(), caches.clone());
    caches.volumes.listen(move |change| {
        let Some(claim) = change.new.and_then(|volume| volume.claimed_by()) else {
            return;
        };
        let Some(found) = of.claim(&claim.name) else {
            return;
        };
        let read = |volume: &Arc<Volume>| restorable::record(volume, &found).map(drop);
        let changed = change.old.map(read) != change.new.map(read);
        if changed && of.may_expire(&found) {
            line.add(claim.name.clone());
        }
    });
    let (line, of) = (queue.clone(), caches.clone());
    caches.classes.listen(move |change| {
        let read = |class: &Arc<StorageClass>| {
            (class.expire_unused.clone(), class.undelete_window.clone())
        };
        let [old, new] = [change.old, change.new].map(|class| class.map(read).unwrap_or_default());
        if old != new {
            let claims = of.claims_of_class(&change.name.name);
            claims.into_iter().for_each(|claim| line.add(claim));
        }
    });
}

#[cfg(test)]
#[path = "triggers_tests.rs"]
mod tests;
