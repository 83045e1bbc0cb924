//! Records, for each claim that is being deleted, when the watch last showed the claim and a
//! change of its pods. These times decide which LIST of pods may lead to the removal of the
//! claim's finalizer.

use crate::{
    hashing::HashMap,
    objects::{Claim, CompactText, ObjectName, finalizers::FinalizerState},
};
use parking_lot::Mutex;
use std::sync::Arc;
use tokio::time::Instant;

/// For each claim that is being deleted, its uid and when the watch last showed it and a change of
/// its pods.
#[derive(Default)]
pub struct LastSeen(Mutex<HashMap<ObjectName, (CompactText, Seen)>>);

/// When the watch last showed a claim that is being deleted, and a change of its pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// When the watch last showed the claim as being deleted, or an attempt to remove its
    /// finalizer failed. Only a LIST of pods that began later may lead to the removal, even if it
    /// was read for another claim.
    pub deletion: Instant,
    /// When the watch last showed that a pod may have stopped using the claim. A LIST that began
    /// earlier may still show that pod as it was before.
    pub pods: Instant,
}

impl Seen {
    fn at(time: Instant) -> Self {
        Self {
            deletion: time,
            pods: time,
        }
    }
}

impl LastSeen {
    /// Records now as the time at which the watch showed the claim as being deleted. Forgets a
    /// claim that needs no removal of the finalizer: it does not exist, is not being deleted, or
    /// lacks it.
    pub fn claim(&self, name: &ObjectName, claim: Option<&Arc<Claim>>) {
        let candidate =
            |claim: &&Arc<Claim>| claim.finalizer_state() == FinalizerState::DeletionCandidate;
        match claim.filter(candidate) {
            Some(claim) => {
                let seen = (claim.uid.clone(), Seen::at(Instant::now()));
                self.0.lock().insert(name.clone(), seen);
            }
            None => drop(self.0.lock().remove(name)),
        }
    }

    /// Records now as the time at which a pod may have stopped using the claim, if the deletion of
    /// the claim is recorded.
    pub fn pod(&self, claim: &ObjectName) {
        if let Some((_, seen)) = self.0.lock().get_mut(claim) {
            seen.pods = Instant::now();
        }
    }

    /// Records now as the time at which an attempt to remove the finalizer of the claim failed, if
    /// the deletion of the claim is recorded: the next attempt needs a new LIST.
    pub fn failure(&self, claim: &ObjectName) {
        if let Some((_, seen)) = self.0.lock().get_mut(claim) {
            *seen = Seen::at(Instant::now());
        }
    }

    /// Returns the times recorded for this claim. Both are now if the watch has not shown the
    /// deletion of a claim with this uid yet.
    pub fn of(&self, name: &ObjectName, claim: &Claim) -> Seen {
        match self.0.lock().get(name) {
            Some((uid, seen)) if *uid == claim.uid => *seen,
            _ => Seen::at(Instant::now()),
        }
    }

    /// Returns the claims of this namespace whose deletion is recorded.
    pub fn of_namespace(&self, namespace: &str) -> Vec<ObjectName> {
        let all = self.0.lock();
        let names = all.keys().filter(|name| *name.namespace == *namespace);
        names.cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::objects::{claim::ClaimWire, finalizers::PVC_PROTECTION};
    use serde_json::json;
    use std::time::Duration;

    fn claim(uid: &str, deleted: bool) -> Arc<Claim> {
        let deletion = deleted.then_some("2026-01-01T00:00:00Z");
        let claim = json!({"metadata": {"name": "data", "uid": uid, "deletionTimestamp": deletion,
            "finalizers": [PVC_PROTECTION]}});
        let claim: ClaimWire = serde_json::from_value(claim).expect("a claim");
        Arc::new(claim.into())
    }

    #[tokio::test(start_paused = true)]
    async fn a_pod_changes_less_than_a_deletion_or_a_failure() {
        let (last_seen, name) = (LastSeen::default(), ObjectName::new("ns", "data"));
        let of = |claim: &Claim| last_seen.of(&name, claim);
        let now = || Seen::at(Instant::now());
        let second = async || tokio::time::sleep(Duration::from_secs(1)).await;
        let (alive, deleted) = (claim("1", false), claim("1", true));

        last_seen.claim(&name, Some(&alive));
        second().await;
        assert_eq!(
            of(&deleted),
            now(),
            "the listener has not seen its deletion"
        );
        last_seen.claim(&name, Some(&deleted));
        let deletion = now();
        second().await;
        assert_eq!(of(&deleted), deletion);
        assert_eq!(of(&claim("2", true)), now(), "another claim of that name");
        last_seen.pod(&name);
        let pods = Instant::now();
        second().await;
        assert_eq!(of(&deleted), Seen { pods, ..deletion });
        last_seen.failure(&name);
        let failure = now();
        second().await;
        assert_eq!(of(&deleted), failure);
        last_seen.claim(&name, None);
        assert!(last_seen.0.lock().is_empty());
    }
}
