//! What puts a claim or a pod in line.

use super::{caches::Caches, rule::awaits_pod, subject::Subject};
use crate::{
    cluster::{Change, WorkQueue},
    objects::{Claim, ClaimRequests, ControllerId, ObjectName, Pod},
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use std::sync::Arc;

/// Puts in line whatever a change may concern.
pub fn listen(caches: &Caches, controller_id: &ControllerId, queue: &Arc<WorkQueue<Subject>>) {
    let (line, claims) = (queue.clone(), caches.claims.clone());
    let id = controller_id.clone();
    caches.pods.listen(move |change| {
        let awaits = |name: &ObjectName| {
            let claim = claims.read().get(name);
            claim.is_some_and(|claim| awaits_pod(&claim, &id))
        };
        pod_changed(change, awaits)
            .into_iter()
            .for_each(|subject| line.add(subject));
    });
    let (line, all) = (queue.clone(), caches.clone());
    let id = controller_id.clone();
    caches.claims.listen(move |change| {
        claim_changed(change, &all, &id)
            .into_iter()
            .for_each(|subject| line.add(subject));
    });
}

/// Everything that may need work.
pub fn candidates(caches: &Caches, controller_id: &ControllerId) -> Vec<Subject> {
    let awaiting = |claim: &Claim| awaits_pod(claim, controller_id);
    let claims = caches.claims.read().names_where(awaiting);
    let mut subjects: Vec<_> = claims.into_iter().map(Subject::Claim).collect();
    for (name, pod) in caches.pods.read().objects() {
        if pod
            .claim_requests
            .as_deref()
            .is_some_and(ClaimRequests::waiting)
        {
            subjects.extend(of_pod(name, pod));
        }
    }
    subjects
}

/// A pod that asks is looked at when what it asks for changes, not with every change of its status: what the API server refused once
/// would be asked for again each time. A pod that is gone may have been what a claim without an owner was kept for.
fn pod_changed(change: &Change<'_, Pod>, awaits: impl Fn(&ObjectName) -> bool) -> Vec<Subject> {
    if change.old.map(asked_by) == change.new.map(asked_by) {
        return Vec::new();
    }
    let asked = [change.old, change.new].into_iter().flatten();
    let mut subjects: Vec<_> = asked
        .filter(|pod| pod.claim_requests.is_some())
        .flat_map(|pod| of_pod(change.name, pod))
        .collect();
    if let (Some(gone), None) = (change.old, change.new) {
        let kept = claims(change.name, gone).filter(awaits);
        subjects.extend(kept.map(Subject::Claim));
    }
    subjects
}

/// A claim that awaits its pod is looked at; when another one comes, goes or gets an owner, so are the pods that ask for it.
fn claim_changed(
    change: &Change<'_, Claim>,
    caches: &Caches,
    controller_id: &ControllerId,
) -> Vec<Subject> {
    let same = change.old.map(standing_of) == change.new.map(standing_of);
    let awaits = |claim: &Arc<Claim>| awaits_pod(claim, controller_id);
    if same && !change.new.is_some_and(awaits) {
        return Vec::new();
    }
    let askers = caches.askers(change.name);
    if askers.is_empty() && !change.new.is_some_and(awaits) {
        return Vec::new();
    }
    let pods = askers.into_iter().map(Subject::Pod);
    pods.chain([Subject::Claim(change.name.clone())]).collect()
}

/// What of a pod matters here.
fn asked_by(pod: &Arc<Pod>) -> (&str, Option<&ClaimRequests>) {
    (&pod.uid, pod.claim_requests.as_deref())
}

/// What of a claim matters to the pods that ask for it.
fn standing_of(claim: &Arc<Claim>) -> (&str, bool, &[OwnerReference]) {
    (&claim.uid, claim.deleting, &claim.owners)
}

fn of_pod(name: &ObjectName, pod: &Pod) -> Vec<Subject> {
    let claims = claims(name, pod).map(Subject::Claim);
    claims.chain([Subject::Pod(name.clone())]).collect()
}

fn claims(name: &ObjectName, pod: &Pod) -> impl Iterator<Item = ObjectName> {
    let named = pod.claims();
    named.map(|claim| ObjectName::new(name.namespace.clone(), claim.clone()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        cluster::Feed,
        objects::{Tracked, claim::ClaimWire, claim_requests::PREFIX, pod::PodWire},
    };
    use serde_json::{Value, json};

    fn pod(changes: Value) -> PodWire {
        let mut pod = json!({
            "metadata": {"name": "p", "namespace": "ns", "uid": "u", "annotations": {format!("{PREFIX}v.enabled"): "true", format!("{PREFIX}v.pvc"): "any"}},
            "spec": {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]},
            "status": {"phase": "Pending"},
        });
        json_patch::merge(&mut pod, &changes);
        serde_json::from_value(pod).expect("a pod")
    }

    fn compact(changes: Value) -> Option<Arc<Pod>> {
        Pod::track(pod(changes)).map(Arc::new)
    }

    fn woken_by_pod(old: Option<Arc<Pod>>, new: Option<Arc<Pod>>, awaits: bool) -> Vec<String> {
        let name = ObjectName::new("ns", "p");
        let change = Change {
            name: &name,
            old: old.as_ref(),
            new: new.as_ref(),
            tombstone: false,
        };
        let woken = pod_changed(&change, |_| awaits).into_iter();
        woken.map(|subject| subject.to_string()).collect()
    }

    #[test]
    fn a_pod_wakes_what_it_asks_for_when_that_changes() {
        let asks = || compact(json!({}));
        let plain = || compact(json!({"metadata": {"annotations": null}}));
        let all = ["claim ns/c", "pod ns/p"];
        assert_eq!(woken_by_pod(None, asks(), false), all);
        let status = json!({"status": {"conditions": [{"type": "PodScheduled"}]}});
        assert!(woken_by_pod(asks(), compact(status), false).is_empty());
        let runs = compact(json!({"status": {"phase": "Running"}}));
        assert!(!woken_by_pod(asks(), runs, false).is_empty());
        assert_eq!(woken_by_pod(asks(), None, false), all);
        // It only uses the claim, which may have been kept for it.
        assert!(woken_by_pod(None, plain(), true).is_empty());
        assert!(woken_by_pod(plain(), None, false).is_empty());
        assert_eq!(woken_by_pod(plain(), None, true), ["claim ns/c"]);
    }

    fn claim(changes: Value) -> Option<Arc<Claim>> {
        let mut claim = json!({"metadata": {"name": "c", "namespace": "ns", "uid": "1"}});
        json_patch::merge(&mut claim, &changes);
        let wire: ClaimWire = serde_json::from_value(claim).expect("a claim");
        Some(Arc::new(wire.into()))
    }

    #[test]
    fn a_claim_wakes_the_pods_that_ask_for_it() {
        let woken = |pods: Vec<PodWire>, old: &Option<Arc<Claim>>, new: &Option<Arc<Claim>>| {
            let caches = Caches {
                claims: Feed::filled(Vec::new()),
                pods: Feed::filled(pods),
            };
            let name = ObjectName::new("ns", "c");
            let change = Change {
                name: &name,
                old: old.as_ref(),
                new: new.as_ref(),
                tombstone: false,
            };
            let woken = claim_changed(&change, &caches, &ControllerId::default()).into_iter();
            let woken: Vec<_> = woken.map(|subject| subject.to_string()).collect();
            woken.join(", ")
        };
        let asks = || vec![pod(json!({}))];
        let (there, bound) = (
            claim(json!({})),
            claim(json!({"spec": {"volumeName": "v"}})),
        );
        let going = claim(json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}));
        let marked = claim(json!({"metadata": {
            "creationTimestamp": "2026-01-01T00:00:05Z",
            "labels": {"dynamic-pvc-provisioner.kubernetes.io/managed-by": ControllerId::default().as_str()},
            "annotations": {"volume-warden.dev/awaiting-pod": "2026-01-01T00:00:00Z"}}}));
        let both = "pod ns/p, claim ns/c";
        assert_eq!(woken(asks(), &there, &None), both);
        assert_eq!(woken(asks(), &there, &going), both);
        assert_eq!(woken(asks(), &there, &bound), "");
        assert_eq!(woken(asks(), &None, &marked), both);
        assert_eq!(woken(vec![], &None, &marked), "claim ns/c");
        assert_eq!(woken(vec![], &there, &None), "");
    }
}
