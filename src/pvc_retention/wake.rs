//! What wakes a set: whatever may change the fate of one of its claims.

use super::known::Known;
use crate::{
    cluster::{Change, WorkQueue},
    objects::{
        Claim, ObjectName, Pod, StatefulSet,
        stateful_set::{ordinal, readings},
    },
};
use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

/// Puts a set in line whenever something happened to it, to a pod of it or to a claim of it.
pub fn listen(known: &Known, queue: &Arc<WorkQueue<ObjectName>>) {
    let (line, others) = (queue.clone(), known.clone());
    let said = AtomicBool::new(false);
    known.sets.listen(move |change| {
        line.add(change.name.clone());
        if change.old.is_none() || change.new.is_none() {
            others
                .rivals(change.name)
                .into_iter()
                .for_each(|set| line.add(set));
        }
        say_once_if_dropped(change, &said);
    });
    let line = queue.clone();
    known.pods.listen(move |change| {
        set_of_pod(change).into_iter().for_each(|set| line.add(set));
    });
    let (line, sets) = (queue.clone(), known.sets.clone());
    known.claims.listen(move |change| {
        if concerns_us(change) {
            let possible = sets_named_by(change.name);
            let sets = sets.read();
            let existing = possible.filter(|set| sets.last_told(set).is_some());
            existing.for_each(|set| line.add(set));
        }
    });
}

impl Known {
    /// Sets that make claims of the same names: whose those are may have changed with one of them.
    fn rivals(&self, set: &ObjectName) -> Vec<ObjectName> {
        let claims = self.claims.read();
        let shared = claims
            .names_referring_to(set)
            .iter()
            .flat_map(sets_named_by);
        shared.filter(|other| other != set).collect()
    }
}

fn sets_named_by(claim: &ObjectName) -> impl Iterator<Item = ObjectName> {
    readings(&claim.name).map(|reading| ObjectName::new(claim.namespace.clone(), reading.set))
}

/// The set of a pod that came, went, or became another. What it does meanwhile decides nothing.
pub(super) fn set_of_pod(change: &Change<'_, Pod>) -> Option<ObjectName> {
    let identity = |pod: &Arc<Pod>| (pod.uid.clone(), pod.stateful_set.clone());
    let (old, new) = (change.old.map(identity), change.new.map(identity));
    let of_a_set = [&old, &new]
        .into_iter()
        .flatten()
        .any(|(_, set)| set.is_some());
    let (set, _) = ordinal(&change.name.name).filter(|_| of_a_set && old != new)?;
    Some(ObjectName::new(change.name.namespace.clone(), set))
}

/// The binder's writes, for instance, do not.
pub(super) fn concerns_us(change: &Change<'_, Claim>) -> bool {
    let (Some(old), Some(new)) = (change.old, change.new) else {
        return true;
    };
    let looked_at = |claim: &Claim| {
        (
            claim.uid.clone(),
            claim.deleting,
            claim.owners.clone(),
            claim.scaled_with.clone(),
            claim.labels.clone(),
        )
    };
    looked_at(old) != looked_at(new)
}

/// An API server that does not know the policy drops it from every set, without a word to whoever wrote it.
fn say_once_if_dropped(change: &Change<'_, StatefulSet>, said: &AtomicBool) {
    let dropped = change.new.is_some_and(|set| set.retention.is_none());
    if dropped && !said.swap(true, Ordering::Relaxed) {
        tracing::warn!(
            set = %change.name,
            "the API server drops spec.persistentVolumeClaimRetentionPolicy, so pvc-retention does nothing for sets without it"
        );
    }
}
