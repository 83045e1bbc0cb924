//! Adds claims and pods to the work queue of pvc-provisioner when claims or pods change.

use super::{
    caches::Caches,
    rule::{awaits_pod, is_marked},
    subject::Subject,
};
use crate::{
    cluster::{Change, WorkQueue},
    objects::{Claim, ClaimRequests, CompactText, ControllerId, ObjectName, Pod},
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use std::sync::Arc;

/// Adds the claims and pods that a change concerns to the queue.
pub fn listen(caches: &Caches, controller_id: &ControllerId, queue: &Arc<WorkQueue<Subject>>) {
    listen_to_pods(caches, controller_id.clone(), queue.clone());
    listen_to_claims(caches, controller_id.clone(), queue.clone());
}

fn listen_to_pods(caches: &Caches, id: ControllerId, queue: Arc<WorkQueue<Subject>>) {
    let claims = caches.claims.clone();
    caches.pods.listen(move |change| {
        let awaits = |name: &ObjectName| {
            let claim = claims.read().get(name);
            claim.is_some_and(|claim| awaits_pod(&claim, &id))
        };
        pod_changed(change, awaits)
            .into_iter()
            .for_each(|subject| queue.add(subject));
    });
}

fn listen_to_claims(caches: &Caches, id: ControllerId, queue: Arc<WorkQueue<Subject>>) {
    let all = caches.clone();
    caches.claims.listen(move |change| {
        claim_changed(change, &all, &id)
            .into_iter()
            .for_each(|subject| queue.add(subject));
    });
}

/// All claims and pods that may need work.
pub fn candidates(caches: &Caches, controller_id: &ControllerId) -> Vec<Subject> {
    let marked = |claim: &Claim| is_marked(claim, controller_id);
    let marked = caches.claims.read().names_where(marked);
    let mut subjects: Vec<_> = marked.into_iter().map(Subject::Claim).collect();
    for (name, pod) in caches.pods.read().objects() {
        if pod
            .claim_requests
            .as_deref()
            .is_some_and(ClaimRequests::waiting)
        {
            subjects.extend(keys(name, claims(name, pod)));
        }
    }
    subjects
}

/// The queue keys that a change of a pod concerns. A pod is reconciled when its claim requests
/// change, or whether it is Pending, has ended or is being deleted; not with every change of its
/// status: otherwise a claim that the API server refused would be requested again each time. If the
/// pod stays, only the claims that it requests are affected: it names the same claims, perhaps a
/// thousand, as long as it exists. The deletion of a pod also triggers the claims that the pod
/// named and that still await a pod: they may have been kept only because this pod named them.
fn pod_changed(change: &Change<'_, Pod>, awaits: impl Fn(&ObjectName) -> bool) -> Vec<Subject> {
    if change.old.map(pod_trigger) == change.new.map(pod_trigger) {
        return Vec::new();
    }
    let stays = change.old.map(|pod| &pod.uid) == change.new.map(|pod| &pod.uid);
    let requesting = [change.old, change.new].into_iter().flatten();
    let requesting = requesting.filter(|pod| pod.claim_requests.is_some());
    let mut subjects: Vec<_> = requesting
        .flat_map(|pod| {
            if stays {
                keys(change.name, requested(change.name, pod))
            } else {
                keys(change.name, claims(change.name, pod))
            }
        })
        .collect();
    if let (Some(gone), None) = (change.old, change.new) {
        let kept = claims(change.name, gone).filter(awaits);
        subjects.extend(kept.map(Subject::Claim));
    }
    subjects
}

/// The queue keys that a change of a claim concerns: the claim, and the pods that request it. A
/// claim with the marker is reconciled after every change. Any other claim is reconciled only
/// if a pod requests it, and only when the claim is created or deleted, its deletion begins, or
/// its owners change.
fn claim_changed(
    change: &Change<'_, Claim>,
    caches: &Caches,
    controller_id: &ControllerId,
) -> Vec<Subject> {
    let same = change.old.map(claim_trigger) == change.new.map(claim_trigger);
    let marked = |claim: &Arc<Claim>| is_marked(claim, controller_id);
    if same && !change.new.is_some_and(marked) {
        return Vec::new();
    }
    let requesting_pods = caches.requesting_pods(change.name);
    if requesting_pods.is_empty() && !change.new.is_some_and(marked) {
        return Vec::new();
    }
    let pods = requesting_pods.into_iter().map(Subject::Pod);
    pods.chain([Subject::Claim(change.name.clone())]).collect()
}

/// The fields of a pod whose change triggers a reconcile.
fn pod_trigger(pod: &Arc<Pod>) -> (&CompactText, Option<&ClaimRequests>) {
    (&pod.uid, pod.claim_requests.as_deref())
}

/// The fields of a claim whose change triggers a reconcile of the claim and of the pods that
/// request it, if such a pod exists.
fn claim_trigger(claim: &Arc<Claim>) -> (&CompactText, bool, &[OwnerReference]) {
    (&claim.uid, claim.deleting, &claim.rare.owners)
}

/// The queue keys of the claims, and that of the pod.
fn keys(pod: &ObjectName, claims: impl Iterator<Item = ObjectName>) -> Vec<Subject> {
    let claims = claims.map(Subject::Claim);
    claims.chain([Subject::Pod(pod.clone())]).collect()
}

/// The claims that the pod names; of a pod that names too many, those that it requests.
fn claims(name: &ObjectName, pod: &Pod) -> impl Iterator<Item = ObjectName> {
    let named = pod.claims();
    let named = named.map(|claim| ObjectName::new(name.namespace.clone(), claim.clone()));
    let many = requested(name, pod).filter(|_| pod.mounts.are_too_many());
    named.chain(many)
}

/// The claims that the pod requests.
fn requested(name: &ObjectName, pod: &Pod) -> impl Iterator<Item = ObjectName> {
    let requests = pod.claim_requests.iter();
    let volumes = requests.flat_map(|requests| &requests.volumes);
    let requested = volumes.filter_map(|volume| volume.claim.as_ref().ok());
    requested.map(|claim| ObjectName::new(name.namespace.clone(), claim.clone()))
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

    fn triggered_by_pod(old: Option<Arc<Pod>>, new: Option<Arc<Pod>>, awaits: bool) -> Vec<String> {
        let name = ObjectName::new("ns", "p");
        let change = Change {
            name: &name,
            old: old.as_ref(),
            new: new.as_ref(),
            tombstone: false,
        };
        let triggered = pod_changed(&change, |_| awaits).into_iter();
        triggered.map(|subject| subject.to_string()).collect()
    }

    #[test]
    fn a_pod_triggers_its_claims_when_its_requests_change() {
        let request = || compact(json!({}));
        let plain = || compact(json!({"metadata": {"annotations": null}}));
        let all = ["claim ns/c", "pod ns/p"];
        assert_eq!(triggered_by_pod(None, request(), false), all);
        let status = json!({"status": {"conditions": [{"type": "PodScheduled"}]}});
        assert!(triggered_by_pod(request(), compact(status), false).is_empty());
        let runs = compact(json!({"status": {"phase": "Running"}}));
        assert!(!triggered_by_pod(request(), runs, false).is_empty());
        assert_eq!(triggered_by_pod(request(), None, false), all);
        let other = json!({"spec": {"volumes": [
            {"name": "v", "persistentVolumeClaim": {"claimName": "c"}},
            {"name": "w", "persistentVolumeClaim": {"claimName": "named"}}]}});
        let mut runs = other.clone();
        runs["status"]["phase"] = "Running".into();
        let (waits, runs) = (compact(other), compact(runs));
        let named = ["claim ns/c", "claim ns/named", "pod ns/p"];
        assert_eq!(triggered_by_pod(None, waits.clone(), false), named);
        let mut updated = triggered_by_pod(waits, runs, false);
        updated.dedup();
        assert_eq!(updated, [all, all].concat(), "the pod only names the other");
        // The pod does not request the claim, but the claim may have been kept because the pod uses
        // it.
        assert!(triggered_by_pod(None, plain(), true).is_empty());
        assert!(triggered_by_pod(plain(), None, false).is_empty());
        assert_eq!(triggered_by_pod(plain(), None, true), ["claim ns/c"]);
    }

    fn claim(changes: Value) -> Option<Arc<Claim>> {
        let mut claim = json!({"metadata": {"name": "c", "namespace": "ns", "uid": "1"}});
        json_patch::merge(&mut claim, &changes);
        let wire: ClaimWire = serde_json::from_value(claim).expect("a claim");
        Some(Arc::new(wire.into()))
    }

    #[test]
    fn a_claim_triggers_the_pods_that_request_it() {
        let triggered = |pods: Vec<PodWire>, old: &Option<Arc<Claim>>, new: &Option<Arc<Claim>>| {
            let caches = Caches {
                claims: Feed::filled(Vec::new()),
                pods: Feed::filled(pods),
                policy: Arc::default(),
            };
            let name = ObjectName::new("ns", "c");
            let change = Change {
                name: &name,
                old: old.as_ref(),
                new: new.as_ref(),
                tombstone: false,
            };
            let triggered = claim_changed(&change, &caches, &ControllerId::default()).into_iter();
            let triggered: Vec<_> = triggered.map(|subject| subject.to_string()).collect();
            triggered.join(", ")
        };
        let request = || vec![pod(json!({}))];
        let (there, bound) = (
            claim(json!({})),
            claim(json!({"spec": {"volumeName": "v"}})),
        );
        let going = claim(json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}));
        let marked = |owners: Value| {
            claim(json!({"metadata": {
            "creationTimestamp": "2026-01-01T00:00:05Z", "ownerReferences": owners,
            "labels": {"dynamic-pvc-provisioner.kubernetes.io/managed-by": ControllerId::default().as_str()},
            "annotations": {"volume-warden.dev/awaiting-pod": "2026-01-01T00:00:00Z"}}}))
        };
        let owned = marked(json!([{"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "2"}]));
        let marked = marked(json!(null));
        let both = "pod ns/p, claim ns/c";
        assert_eq!(triggered(request(), &there, &None), both);
        assert_eq!(triggered(request(), &there, &going), both);
        assert_eq!(triggered(request(), &there, &bound), "");
        assert_eq!(triggered(request(), &None, &marked), both);
        assert_eq!(triggered(vec![], &None, &marked), "claim ns/c");
        assert_eq!(triggered(vec![], &marked, &owned), "claim ns/c");
        assert_eq!(triggered(vec![], &there, &None), "");
    }
}
