//! When something was last seen that concerns the release of a claim.

use crate::objects::{Claim, ObjectName, finalizers::FinalizerState};
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};
use tokio::time::Instant;

/// For each claim that is being deleted: when its deletion, the last change of a pod that may
/// release it, or the last failed attempt to release it was seen. A LIST of pods that began later
/// may decide about the claim, even if it was read for another claim. An earlier one may not.
#[derive(Default)]
pub struct LastSeen(Mutex<HashMap<ObjectName, (Box<str>, Instant)>>);

impl LastSeen {
    /// Records now as the time at which the watch showed the deletion of the claim. Forgets a claim
    /// that is not being deleted.
    pub fn claim(&self, name: &ObjectName, claim: Option<&Arc<Claim>>) {
        let candidate =
            |claim: &&Arc<Claim>| claim.finalizer_state() == FinalizerState::DeletionCandidate;
        match claim.filter(candidate) {
            Some(claim) => {
                let seen = (claim.uid.clone(), Instant::now());
                self.lock().insert(name.clone(), seen);
            }
            None => drop(self.lock().remove(name)),
        }
    }

    /// Records now as the last time for the claim, if its deletion is recorded: the watch has shown
    /// a change of a pod that may release the claim, or an attempt to release it has failed.
    pub fn touch(&self, name: &ObjectName) {
        if let Some((_, seen)) = self.lock().get_mut(name) {
            *seen = Instant::now();
        }
    }

    /// The time after which a LIST must have begun to decide about this claim. It is now if the
    /// watch has not shown the deletion of a claim with this uid yet.
    pub fn since(&self, name: &ObjectName, claim: &Claim) -> Instant {
        match self.lock().get(name) {
            Some((uid, seen)) if *uid == claim.uid => *seen,
            _ => Instant::now(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ObjectName, (Box<str>, Instant)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
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
    async fn only_a_later_list_may_decide() {
        let (last_seen, name) = (LastSeen::default(), ObjectName::new("ns", "data"));
        let since = |claim: &Claim| last_seen.since(&name, claim);
        let second = async || tokio::time::sleep(Duration::from_secs(1)).await;
        let (alive, deleted) = (claim("1", false), claim("1", true));

        last_seen.claim(&name, Some(&alive));
        second().await;
        assert_eq!(
            since(&deleted),
            Instant::now(),
            "the listener has not seen its deletion"
        );
        last_seen.claim(&name, Some(&deleted));
        let deletion = Instant::now();
        second().await;
        assert_eq!(since(&deleted), deletion);
        assert_eq!(
            since(&claim("2", true)),
            Instant::now(),
            "another claim of that name"
        );
        last_seen.touch(&name);
        let pod = Instant::now();
        second().await;
        assert_eq!(since(&deleted), pod, "the pod was deleted");
        last_seen.claim(&name, None);
        assert!(last_seen.lock().is_empty());
    }
}
