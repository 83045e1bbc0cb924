//! Which Pending claims request the data of a deleted claim.

use crate::{
    cluster::Change,
    hashing::HashMap,
    objects::{Claim, CompactText, ObjectName},
};
use std::{
    collections::BTreeSet,
    sync::{Mutex, MutexGuard, PoisonError},
};

/// An index of the Pending claims that request the data of a deleted claim, by the volume that they
/// name.
#[derive(Default)]
pub struct Restorers(Mutex<HashMap<CompactText, BTreeSet<ObjectName>>>);

impl Restorers {
    /// Updates the index after a change of a claim.
    pub fn update(&self, change: &Change<'_, Claim>) {
        let before = change.old.and_then(|claim| requested(claim));
        let now = change.new.and_then(|claim| requested(claim));
        if before == now {
            return;
        }
        let mut index = self.lock();
        if let Some(volume) = before
            && let Some(claims) = index.get_mut(volume)
        {
            claims.remove(change.name);
            if claims.is_empty() {
                index.remove(volume);
            }
        }
        if let Some(volume) = now {
            index
                .entry(volume.clone())
                .or_default()
                .insert(change.name.clone());
        }
    }

    /// Returns the claims that request the volume: those of one namespace, or of all.
    pub fn of(&self, volume: &str, namespace: Option<&str>) -> Vec<ObjectName> {
        let index = self.lock();
        let claims = index.get(&volume.into()).into_iter().flatten();
        let within = |claim: &&ObjectName| namespace.is_none_or(|only| *claim.namespace == *only);
        claims.filter(within).cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<CompactText, BTreeSet<ObjectName>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the volume whose data the claim requests; none if the claim is not Pending.
pub fn requested(claim: &Claim) -> Option<&CompactText> {
    let asks = claim
        .rare
        .trash
        .as_deref()
        .is_some_and(|trash| trash.undelete.is_some());
    let waits = claim.pending && !claim.deleting && !claim.volume_name.is_empty();
    (asks && waits).then_some(&claim.volume_name)
}
