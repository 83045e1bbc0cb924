//! The StatefulSet controller. In half of the histories it also writes the owner references of
//! claims, as Kubernetes 1.32 and later do.

use super::{Call, Controller, claim_owners};
use crate::{
    cluster::Cluster,
    json::{is_deleting, is_owned_by, list, name, namespace, ordinals, text, uid},
    random::digest,
    view::View,
};
use serde_json::{Value, json};
use std::{cmp::Reverse, sync::Arc};

/// The StatefulSet controller.
pub struct StatefulSets {
    /// Whether it writes the owner references of claims.
    pub writes_owners: bool,
}

impl Controller for StatefulSets {
    const NAME: &'static str = "statefulset-controller";
    const USER: &'static str = "system:serviceaccount:kube-system:statefulset-controller";
    const KINDS: &'static [&'static str] = &["statefulsets", "pods", "persistentvolumeclaims"];

    fn act(&mut self, view: &View, live: &Cluster, _: u64) -> Vec<Call> {
        let sets = view.all("statefulsets").filter(|set| !is_deleting(set));
        sets.flat_map(|set| {
            let (mut calls, parallel) = (Vec::new(), is_parallel(live, set));
            if self.scale_up(view, set, parallel, &mut calls) {
                let condemned = condemned(view, set);
                let updates = condemned
                    .iter()
                    .flat_map(|pod| self.updates(view, set, pod));
                let updates: Vec<Call> = updates.collect();
                // As in Kubernetes, a pod is deleted once its claims have their owner.
                if updates.is_empty() {
                    scale_down(set, condemned, parallel, &mut calls);
                }
                calls.extend(updates);
            }
            calls
        })
        .collect()
    }
}

impl StatefulSets {
    /// Creates the missing claims and pods. Unless `parallel`, it creates each pod only once the
    /// one before it runs. Returns whether surplus pods can be deleted.
    ///
    /// Source: `processReplica` in `pkg/controller/statefulset/stateful_set_control.go` of
    /// Kubernetes.
    fn scale_up(&self, view: &View, set: &Value, parallel: bool, calls: &mut Vec<Call>) -> bool {
        for ordinal in ordinals(set) {
            let name = format!("{}-{ordinal}", name(set));
            let pod = view.get("pods", namespace(set), &name);
            match pod {
                Some(pod) => {
                    if text(pod, "/status/phase") != "Running" {
                        calls.extend(missing_claims(view, set, &name));
                    }
                    if parallel || is_healthy(pod) || text(pod, "/status/phase") == "Pending" {
                        calls.extend(self.updates(view, set, pod));
                    }
                }
                None => calls.extend(self.new_pod(view, set, &name)),
            }
            if !parallel && !pod.is_some_and(|pod| is_healthy(pod)) {
                return false;
            }
        }
        true
    }

    /// Creates a pod and its missing claims. It waits while the garbage collector deletes a claim
    /// of an earlier pod of the name.
    fn new_pod(&self, view: &View, set: &Value, pod: &str) -> Vec<Call> {
        if self.writes_owners && claim_owners::are_stale(view, set, pod) {
            return Vec::new();
        }
        let mut calls = missing_claims(view, set, pod);
        let terminating = claim_owners::claims_of(view, set, pod).any(|claim| is_deleting(claim));
        if !terminating {
            let path = format!("/api/v1/namespaces/{}/pods", namespace(set));
            calls.push(Call::create(path, new_pod(set, pod)));
        }
        calls
    }

    /// The updates of the owners of the claims of a pod.
    fn updates(&self, view: &View, set: &Value, pod: &Value) -> Vec<Call> {
        if self.writes_owners {
            claim_owners::updates(view, set, pod)
        } else {
            Vec::new()
        }
    }
}

/// Whether the pods of the set are started and deleted all at once. No user sets
/// `podManagementPolicy`; half of the sets are handled as with `Parallel`, so that both orders
/// occur.
fn is_parallel(live: &Cluster, set: &Value) -> bool {
    digest((live.seed, uid(set), "parallel")).is_multiple_of(2)
}

fn missing_claims(view: &View, set: &Value, pod: &str) -> Vec<Call> {
    let namespace = namespace(set);
    let path = format!("/api/v1/namespaces/{namespace}/persistentvolumeclaims");
    let templates = list(set, "/spec/volumeClaimTemplates").iter();
    let claims = templates.map(|template| (template, format!("{}-{pod}", name(template))));
    claims
        .filter(|(_, claim)| {
            let found = view.get("persistentvolumeclaims", namespace, claim);
            found.is_none()
        })
        .map(|(template, claim)| Call::create(&path, new_claim(set, template, &claim)))
        .collect()
}

/// The pods of the set whose ordinals are too high, from the highest ordinal down.
fn condemned<'a>(view: &'a View, set: &'a Value) -> Vec<&'a Arc<Value>> {
    let ordinal = |pod: &Value| name(pod).rsplit_once('-')?.1.parse::<u64>().ok();
    let pods = view.all("pods").filter(|pod| is_owned_by(pod, set));
    let pods = pods.filter_map(|pod| Some((ordinal(pod)?, pod)));
    let mut condemned: Vec<_> = pods
        .filter(|(ordinal, _)| !ordinals(set).contains(ordinal))
        .collect();
    condemned.sort_by_key(|(ordinal, _)| Reverse(*ordinal));
    condemned.into_iter().map(|(_, pod)| pod).collect()
}

/// Deletes the condemned pods. Unless `parallel`, it deletes one at a time from the highest ordinal
/// down, an unhealthy one only once the lower condemned pods run.
///
/// Source: `processCondemned` in `pkg/controller/statefulset/stateful_set_control.go` of
/// Kubernetes.
fn scale_down(set: &Value, mut condemned: Vec<&Arc<Value>>, parallel: bool, calls: &mut Vec<Call>) {
    if !parallel {
        let mut below = condemned.iter().skip(1);
        let waits = below.any(|pod| !is_healthy(pod));
        // An unhealthy pod is deleted first only if all lower condemned pods are healthy.
        if condemned
            .first()
            .is_some_and(|pod| !is_healthy(pod) && waits)
        {
            return;
        }
        condemned.truncate(1);
    }
    for pod in condemned.into_iter().filter(|pod| !is_deleting(pod)) {
        let path = format!("/api/v1/namespaces/{}/pods/{}", namespace(set), name(pod));
        calls.push(Call::delete(path, uid(pod)));
    }
}

/// Whether the pod runs. A running pod is also ready: the simulated kubelet starts no others.
fn is_healthy(pod: &Value) -> bool {
    text(pod, "/status/phase") == "Running" && !is_deleting(pod)
}

fn new_claim(set: &Value, template: &Value, name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": namespace(set), "labels": set["spec"]["selector"]["matchLabels"]},
        "spec": template["spec"],
    })
}

fn new_pod(set: &Value, pod: &str) -> Value {
    let volumes: Vec<Value> = list(set, "/spec/volumeClaimTemplates")
        .iter()
        .map(|template| {
            let claim = format!("{}-{pod}", name(template));
            json!({"name": name(template), "persistentVolumeClaim": {"claimName": claim}})
        })
        .collect();
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": pod, "namespace": namespace(set), "labels": set["spec"]["selector"]["matchLabels"],
            "ownerReferences": [{
                "apiVersion": "apps/v1", "kind": "StatefulSet", "name": name(set), "uid": uid(set),
                "controller": true, "blockOwnerDeletion": true,
            }],
        },
        "spec": {"containers": [{"name": "main", "image": "main"}], "volumes": volumes, "terminationGracePeriodSeconds": 5},
    })
}
