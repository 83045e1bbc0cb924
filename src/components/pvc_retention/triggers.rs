//! Enqueues StatefulSets for the reconciler of pvc-retention when related objects change.

use super::{
    caches::{Caches, named_for},
    resolve_set::READINGS,
    subject::Subject,
};
use crate::{
    cluster::{Change, WorkQueue},
    objects::{
        Claim, ObjectName, Pod, StatefulSet,
        stateful_set::{ordinal, readings},
    },
};
use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

/// Enqueues a StatefulSet when it changes, when one of its pods is created, deleted or gets another
/// owner, when a field of one of its claims that the rule reads changes, and when another
/// StatefulSet to which its claims may belong is created or deleted. Any other change of a claim
/// only retries a reconcile that failed: a write that failed because the claim had changed can now
/// succeed.
pub fn listen(caches: &Caches, queue: &Arc<WorkQueue<Subject>>) {
    listen_to_sets(caches, queue.clone());
    listen_to_pods(caches, queue.clone());
    listen_to_claims(caches, queue.clone());
}

fn listen_to_sets(caches: &Caches, queue: Arc<WorkQueue<Subject>>) {
    let others = caches.clone();
    let warned = AtomicBool::new(false);
    caches.sets.listen(move |change| {
        // A status update, for example: a rollout causes two for each replica.
        if change.old == change.new {
            return queue.retry_set(change.name);
        }
        queue.add_set(change.name);
        if let (Some(set), None) | (None, Some(set)) = (change.old, change.new) {
            let other_sets = others.other_sets(change.name, set);
            other_sets.into_iter().for_each(|set| queue.add_set(&set));
        }
        warn_once_if_field_dropped(change, &warned);
    });
}

fn listen_to_pods(caches: &Caches, queue: Arc<WorkQueue<Subject>>) {
    let sets = caches.sets.clone();
    caches.pods.listen(move |change| {
        let sets = sets.read();
        let existing = sets_named_by_pod(change).filter(|set| sets.get(set).is_some());
        existing.for_each(|set| queue.add_set(&set));
    });
}

fn listen_to_claims(caches: &Caches, queue: Arc<WorkQueue<Subject>>) {
    let sets = caches.sets.clone();
    caches.claims.listen(move |change| {
        let sets = sets.read();
        let existing = sets_named_by(change.name).filter(|set| sets.get(set).is_some());
        let mut existing = existing.peekable();
        let affects = existing.peek().is_some() && affects_decision(change);
        existing.for_each(|set| {
            if affects {
                queue.add_set(&set)
            } else {
                queue.retry_set(&set)
            }
        });
    });
}

impl Caches {
    /// The other StatefulSets whose claims may have the same names as those of `set`: if `set` is
    /// created or deleted, it is decided again to which StatefulSet these claims belong.
    fn other_sets(&self, name: &ObjectName, set: &StatefulSet) -> BTreeSet<ObjectName> {
        let mut other_sets: BTreeSet<_> = {
            let claims = self.claims.read();
            // The claims of a template differ in their ordinals only, so the names of all of them
            // contain the same StatefulSets.
            let templates = set.templates.iter();
            let first = templates.filter_map(|each| named_for(name, each, &claims).next());
            first.flat_map(sets_named_by).collect()
        };
        let sets = self.sets.read();
        other_sets.retain(|other| other != name && sets.get(other).is_some());
        other_sets
    }
}

fn sets_named_by(claim: &ObjectName) -> impl Iterator<Item = ObjectName> {
    sets_named(&claim.namespace, &claim.name)
}

/// Returns the StatefulSets to which a claim with the name may belong. A claim with more readings
/// belongs to none.
fn sets_named(namespace: &Arc<str>, claim: &str) -> impl Iterator<Item = ObjectName> {
    let readings = readings(claim).take(READINGS);
    readings.map(|reading| ObjectName::new(namespace.clone(), reading.set))
}

/// The StatefulSet in a pod's name and those in the names of the pod's claims, if the pod was
/// created, deleted or recreated, or its owner changed. Other changes of a pod do not affect
/// claims. The StatefulSet is returned even if it does not control the pod: as long as the pod
/// exists, Volume Warden does not delete the claim of its ordinal. A claim name such as `a-b-c-0`
/// contains the names of two StatefulSets, `b-c` and `c`: the claim may belong to the other one as
/// soon as the pod no longer mounts it. They are not collected: a pod may have thousands of
/// volumes.
fn sets_named_by_pod<'a>(change: &Change<'a, Pod>) -> impl Iterator<Item = ObjectName> + 'a {
    let identity = |pod: &Arc<Pod>| (pod.uid.clone(), pod.stateful_set.clone());
    let became = change.old.map(identity) != change.new.map(identity);
    let namespace = &change.name.namespace;
    let own = ordinal(&change.name.name);
    let own = own.map(|(set, _)| ObjectName::new(namespace.clone(), set));
    let pods = [change.old, change.new].into_iter().flatten();
    let claims = pods.flat_map(|pod| pod.claims());
    let by_claims = claims.flat_map(move |claim| sets_named(namespace, claim));
    let all = own.into_iter().chain(by_claims);
    became.then_some(all).into_iter().flatten()
}

/// Returns whether the change of the claim may change the decision about it. Writes of the binder,
/// for example, do not. A change of the finalizers or of the marker of pvc-provisioner does: Volume
/// Warden writes them too, and leaves the claim unchanged until the watch delivers that write.
fn affects_decision(change: &Change<'_, Claim>) -> bool {
    let (Some(old), Some(new)) = (change.old, change.new) else {
        return true;
    };
    fn relevant_fields(claim: &Claim) -> impl PartialEq {
        let rare = &claim.rare;
        let own = (&claim.uid, claim.deleting, &claim.finalizers);
        let marks = (&rare.scaled_with, &rare.awaiting_pod);
        (own, &rare.owners, marks, &rare.labels)
    }
    relevant_fields(old) != relevant_fields(new)
}

/// Logs once that the API server does not know the retention policy of StatefulSets: such a server
/// silently drops the field from every StatefulSet.
fn warn_once_if_field_dropped(change: &Change<'_, StatefulSet>, warned: &AtomicBool) {
    let dropped = change.new.is_some_and(|set| set.retention.is_none());
    if dropped && !warned.swap(true, Ordering::Relaxed) {
        tracing::warn!(
            set = %change.name,
            "the API server drops spec.persistentVolumeClaimRetentionPolicy, so \
             pvc-retention does nothing for StatefulSets without this field"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::objects::{
        claim::{AWAITING_POD, ClaimWire},
        pod::PodWire,
    };
    use serde_json::{Value, json};
    use std::collections::BTreeSet;

    fn pod(uid: &str, set: Option<&str>, phase: &str) -> Arc<Pod> {
        let owner = |uid| json!([{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web", "uid": uid, "controller": true}]);
        let wire = json!({"metadata": {"name": "web-0", "uid": uid, "ownerReferences": set.map(owner)}, "status": {"phase": phase}});
        let wire: PodWire = serde_json::from_value(wire).expect("a pod");
        Arc::new(wire.into())
    }

    fn claim(changes: Value) -> Arc<Claim> {
        let mut wire =
            json!({"metadata": {"name": "data-web-0", "uid": "1", "resourceVersion": "1"}});
        json_patch::merge(&mut wire, &changes);
        let wire: ClaimWire = serde_json::from_value(wire).expect("a claim");
        Arc::new(wire.into())
    }

    #[test]
    fn a_pod_wakes_its_set_when_it_comes_goes_or_becomes_another() {
        let running = Some(pod("1", Some("s"), "Running"));
        for (old, new, wakes) in [
            (None, running.clone(), true),
            (running.clone(), None, true),
            (running.clone(), Some(pod("2", Some("s"), "Running")), true),
            (running.clone(), Some(pod("1", None, "Running")), true),
            (running, Some(pod("1", Some("s"), "Failed")), false),
            (Some(pod("1", None, "Running")), None, true),
        ] {
            let name = ObjectName::new("ns", "web-0");
            let change = Change {
                name: &name,
                old: old.as_ref(),
                new: new.as_ref(),
                tombstone: false,
            };
            let expected = Vec::from_iter(wakes.then(|| ObjectName::new("ns", "web")));
            let woken: Vec<_> = sets_named_by_pod(&change).collect();
            assert_eq!(woken, expected, "{old:?} {new:?}");
        }
    }

    #[test]
    fn a_pod_wakes_the_other_sets_whose_claims_have_the_name_of_its_own() {
        let wire = json!({"metadata": {"name": "c-0", "uid": "1"}, "spec": {"volumes": [
            {"name": "a-b", "persistentVolumeClaim": {"claimName": "a-b-c-0"}},
        ]}});
        let wire: PodWire = serde_json::from_value(wire).expect("a pod");
        let (name, pod) = (ObjectName::new("ns", "c-0"), Arc::new(wire.into()));
        let change = Change {
            name: &name,
            old: Some(&pod),
            new: None,
            tombstone: false,
        };
        let woken: BTreeSet<_> = sets_named_by_pod(&change).collect();
        let expected = ["c", "b-c"].map(|set| ObjectName::new("ns", set));
        assert_eq!(woken, expected.into());
    }

    #[test]
    fn a_set_wakes_the_other_sets_that_exist_and_may_have_its_claims() {
        use crate::{cluster::Feeds, telemetry::Metrics};
        let read = |value: Value| serde_json::from_value(value);
        let set = |name: &str| {
            let templates = json!([{"metadata": {"name": "a"}}]);
            json!({"metadata": {"namespace": "ns", "name": name, "uid": name},
                "spec": {"volumeClaimTemplates": templates}})
        };
        let caches = Caches::from(&Feeds::new(&Arc::new(Metrics::new())));
        let (claims, sets) = (&caches.claims, &caches.sets);
        for ordinal in 0..3 {
            let claim = json!({"metadata": {"namespace": "ns", "name": format!("a-b-c-d-{ordinal}"), "uid": "1"}});
            claims.deliver(serde_json::from_value(claim).expect("a claim"), true);
        }
        let name = ObjectName::new("ns", "b-c-d");
        for each in ["b-c-d", "d"] {
            sets.deliver(read(set(each)).expect("a set"), true);
        }
        let own = sets.read().get(&name).expect("the set");
        let other_sets = caches.other_sets(&name, &own);
        assert_eq!(other_sets, BTreeSet::from([ObjectName::new("ns", "d")]));
    }

    #[test]
    fn a_status_update_evaluates_no_claims() {
        use crate::{cluster::Feeds, telemetry::Metrics};
        let set = |replicas: i32, version: &str| {
            let templates = json!([{"metadata": {"name": "a"}}]);
            let wire = json!({"metadata": {"namespace": "ns", "name": "web", "uid": "1",
                "resourceVersion": version},
                "spec": {"replicas": replicas, "volumeClaimTemplates": templates}});
            serde_json::from_value(wire).expect("a set")
        };
        let caches = Caches::from(&Feeds::new(&Arc::new(Metrics::new())));
        caches.sets.deliver(set(1, "1"), true);
        let queue = Arc::new(WorkQueue::default());
        queue.open();
        listen(&caches, &queue);
        caches.sets.deliver(set(1, "2"), true);
        assert!(queue.is_empty());
        caches.sets.deliver(set(2, "3"), true);
        assert!(!queue.is_empty());
    }

    #[test]
    fn a_claim_wakes_its_set_for_what_the_rule_looks_at() {
        let before = claim(json!({}));
        let owner = json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "c", "uid": "c"}]);
        for (changes, wakes) in [
            (json!({"metadata": {"uid": "2"}}), true),
            (json!({"metadata": {"finalizers": ["a"]}}), true),
            (
                json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}),
                true,
            ),
            (json!({"metadata": {"ownerReferences": owner}}), true),
            (
                json!({"metadata": {"annotations": {"volume-warden.dev/scaled-with": "s"}}}),
                true,
            ),
            (
                json!({"metadata": {"annotations": {AWAITING_POD: "2026-01-01T00:00:00Z"}}}),
                true,
            ),
            (
                json!({"metadata": {"resourceVersion": "2", "annotations": {"a": "b"}}}),
                false,
            ),
            (json!({"spec": {"volumeName": "v"}}), false),
        ] {
            let (name, after) = (ObjectName::new("ns", "data-web-0"), claim(changes.clone()));
            let change = Change {
                name: &name,
                old: Some(&before),
                new: Some(&after),
                tombstone: false,
            };
            assert_eq!(affects_decision(&change), wakes, "{changes}");
        }
    }
}
