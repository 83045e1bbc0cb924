//! Enqueues claims for the reconciler of pvc-protection when claims or pods change.

use super::{last_seen::LastSeen, reconcile::PvcProtectionReconciler};
use crate::{
    cluster::{Change, WorkQueue},
    objects::{ObjectName, Pod, finalizers::FinalizerState},
};
use std::sync::Arc;

impl PvcProtectionReconciler {
    /// Enqueues a claim on every change after which the finalizer may have to be added or removed.
    pub fn listen(&self, queue: &Arc<WorkQueue<ObjectName>>) {
        let (claim_queue, seen) = (queue.clone(), self.last_seen.clone());
        self.claims.listen(move |change| {
            seen.claim(change.name, change.new);
            match change.new.map(|claim| claim.finalizer_state()) {
                Some(FinalizerState::NeedsFinalizer) => claim_queue.add_urgent(change.name.clone()),
                Some(FinalizerState::DeletionCandidate) => claim_queue.add(change.name.clone()),
                Some(FinalizerState::UpToDate) | None => {}
            }
        });
        let (queue, seen) = (queue.clone(), self.last_seen.clone());
        self.pods.listen(move |change| {
            // A user may update a pod all the time, and it may name a thousand claims.
            if change.old == change.new {
                return;
            }
            for claim in claims_to_reconcile(change)
                .into_iter()
                .chain(claims_of_namespace(change, &seen))
            {
                seen.pod(&claim);
                queue.add(claim);
            }
        });
    }
}

/// The claims that must be evaluated again after a change of a pod, because the pod may not use
/// them, or not any more: it was deleted, has ended, is shut down, or has no node.
///
/// A scheduled pod that keeps running enqueues nothing. If one event replaces a pod by another of
/// the same name, the claims of the first pod are enqueued.
pub(super) fn claims_to_reconcile(change: &Change<'_, Pod>) -> Vec<ObjectName> {
    let claims = pods_without_use(change).flat_map(|pod| pod.claims());
    claims
        .map(|claim| ObjectName::new(change.name.namespace.clone(), claim.clone()))
        .collect()
}

/// The claims that must be evaluated again after a change of a pod that names too many claims to
/// keep their names: all of the namespace that are being deleted.
pub(super) fn claims_of_namespace(change: &Change<'_, Pod>, deleted: &LastSeen) -> Vec<ObjectName> {
    if pods_without_use(change).any(|pod| pod.mounts.are_too_many()) {
        deleted.of_namespace(&change.name.namespace)
    } else {
        Vec::new()
    }
}

/// The pod before and after the change, each only if it may not use its claims any more.
fn pods_without_use<'a>(change: &Change<'a, Pod>) -> impl Iterator<Item = &'a Arc<Pod>> {
    let new = change.new;
    let replaced = move |old: &Pod| new.is_none_or(|new| new.uid != old.uid);
    let left = change.old.filter(|old| replaced(old) || !old.scheduled);
    let lets_go = |new: &Pod| new.terminated() || new.shut_down || !new.scheduled;
    let idle = change.new.filter(|new| lets_go(new));
    left.into_iter().chain(idle)
}
