//! When a pod last used a claim whose condition `Unused` is True nevertheless.
//!
//! The condition says since when no pod has used the claim, but only while something writes it. If
//! its writer is removed, a True stays, with its old time, while pods use the claim. Pods that
//! exist are seen by the rule; the end of each is remembered here.

use crate::{
    clock::Clock,
    cluster::Feed,
    hashing::HashMap,
    objects::{Claim, ObjectName, Pod},
};
use k8s_openapi::jiff::Timestamp;
use parking_lot::Mutex;
use std::sync::Arc;

/// When this replica saw the last pod of each such claim end, or be deleted before it had ended. A
/// claim is forgotten when its condition is not True any more, because then something writes it.
#[derive(Default)]
pub struct LastUse(Mutex<HashMap<ObjectName, Timestamp>>);

impl LastUse {
    /// Remembers from now on what the watches report.
    pub fn watching(claims: &Arc<Feed<Claim>>, pods: &Arc<Feed<Pod>>, clock: Clock) -> Arc<Self> {
        let last_use = Arc::new(Self::default());
        let (memory, of) = (last_use.clone(), claims.clone());
        pods.listen(move |change| {
            let Some(old) = change.old.filter(|old| !old.terminated()) else {
                return;
            };
            if change
                .new
                .is_some_and(|new| new.uid == old.uid && !new.terminated())
            {
                return;
            }
            for claim in old.claims() {
                let name = ObjectName::new(change.name.namespace.clone(), claim.clone());
                if of.read().get(&name).is_some_and(|claim| is_unused(&claim)) {
                    memory.0.lock().insert(name, clock.timestamp());
                }
            }
        });
        let memory = last_use.clone();
        claims.listen(move |change| {
            if !change.new.is_some_and(|claim| is_unused(claim)) {
                memory.0.lock().remove(change.name);
            }
        });
        last_use
    }

    /// Returns when the last pod ended that used the claim.
    pub fn of(&self, claim: &ObjectName) -> Option<Timestamp> {
        self.0.lock().get(claim).copied()
    }
}

fn is_unused(claim: &Claim) -> bool {
    claim.unused.is_some_and(|condition| condition.holds)
}
