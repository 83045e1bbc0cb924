//! When a pod last used a claim whose condition `Unused` is True nevertheless.
//!
//! The condition says since when no pod has used the claim, but only while something writes it. If
//! its writer is removed, a True stays, with its old time, while pods use the claim. Pods that
//! exist are seen by the rule; the end of each is remembered here.

use crate::{
    cluster::{Feed, LatestTime},
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
    pub fn watching(
        claims: &Arc<Feed<Claim>>,
        pods: &Arc<Feed<Pod>>,
        time: LatestTime,
    ) -> Arc<Self> {
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
            let (namespace, claims) = (&change.name.namespace, of.read());
            let unused: Vec<_> = if old.mounts.are_too_many() {
                // It may have named any claim of its namespace.
                let unused = claims.objects().filter(|(_, claim)| is_unused(claim));
                let names = unused.map(|(name, _)| name.clone());
                names.filter(|name| name.namespace == *namespace).collect()
            } else {
                old.claims()
                    .map(|claim| ObjectName::new(namespace.clone(), claim.clone()))
                    .filter(|name| claims.get(name).is_some_and(|claim| is_unused(&claim)))
                    .collect()
            };
            drop(claims);
            let now = time.now();
            let ended = unused.into_iter().map(|name| (name, now));
            memory.0.lock().extend(ended);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{clock::Clock, objects::pod::MAX_NAMES};
    use serde_json::{Value, json};

    fn read<T: serde::de::DeserializeOwned>(object: Value) -> T {
        serde_json::from_value(object).expect("readable")
    }

    fn claim(namespace: &str, name: &str, unused: &str) -> Value {
        json!({"metadata": {"namespace": namespace, "name": name, "uid": "1", "resourceVersion": "1"},
            "status": {"phase": "Bound", "conditions": [{"type": "Unused", "status": unused}]}})
    }

    #[test]
    fn the_end_of_a_pod_counts_for_each_claim_that_it_may_have_used() {
        let claims = Feed::filled(vec![
            read(claim("shop", "data-0", "True")),
            read(claim("shop", "data-1", "False")),
            read(claim("shop", "other", "True")),
            read(claim("bank", "data-0", "True")),
        ]);
        let pods = Feed::filled(vec![]);
        let time = LatestTime::new(Clock::system());
        let last_use = LastUse::watching(&claims, &pods, time);
        let ended = |count: usize| {
            let volume = |index| {
                json!({"name": format!("v{index}"),
                    "persistentVolumeClaim": {"claimName": format!("data-{index}")}})
            };
            let volumes: Vec<_> = (0..count).map(volume).collect();
            let pod = json!({"metadata": {"namespace": "shop", "name": "pod", "uid": "p",
                "resourceVersion": "1"}, "spec": {"volumes": volumes}});
            for exists in [true, false] {
                pods.deliver(read(pod.clone()), exists);
            }
            [
                ("shop", "data-0"),
                ("shop", "data-1"),
                ("shop", "other"),
                ("bank", "data-0"),
            ]
            .map(|(namespace, name)| last_use.of(&ObjectName::new(namespace, name)).is_some())
        };
        assert_eq!(ended(2), [true, false, false, false]);
        assert_eq!(ended(MAX_NAMES + 1), [true, false, true, false]);
    }
}
