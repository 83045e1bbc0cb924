//! The StatefulSet controller, without its own handling of claims.

use super::{Call, Controller};
use crate::{
    cluster::Cluster,
    json::{is_deleting, list, name, namespace, ordinals, owners, text, uid},
    random::digest,
    view::View,
};
use serde_json::{Value, json};
use std::{cmp::Reverse, sync::Arc};

/// The StatefulSet controller.
pub struct StatefulSets;

impl Controller for StatefulSets {
    const NAME: &'static str = "statefulset-controller";
    const USER: &'static str = "system:serviceaccount:kube-system:statefulset-controller";
    const KINDS: &'static [&'static str] = &["statefulsets", "pods", "persistentvolumeclaims"];

    fn act(&mut self, view: &View, live: &Cluster, _: u64) -> Vec<Call> {
        let sets = view.all("statefulsets").filter(|set| !is_deleting(set));
        sets.flat_map(|set| {
            let (mut calls, parallel) = (Vec::new(), is_parallel(live, set));
            if scale_up(view, set, parallel, &mut calls) {
                scale_down(view, set, parallel, &mut calls);
            }
            calls
        })
        .collect()
    }
}

/// Whether the pods of the set are started and deleted all at once. No user sets
/// `podManagementPolicy`; half of the sets are handled as with `Parallel`, so that both orders
/// occur.
fn is_parallel(live: &Cluster, set: &Value) -> bool {
    digest((live.seed, uid(set), "parallel")).is_multiple_of(2)
}

/// Creates the missing claims and pods. Unless `parallel`, it creates each pod only once the one
/// before it runs. Returns whether surplus pods can be deleted.
///
/// Source: `processReplica` in `pkg/controller/statefulset/stateful_set_control.go` of Kubernetes.
fn scale_up(view: &View, set: &Value, parallel: bool, calls: &mut Vec<Call>) -> bool {
    let namespace = namespace(set);
    for ordinal in ordinals(set) {
        let name = format!("{}-{ordinal}", name(set));
        let pod = view.get("pods", namespace, &name);
        if pod.is_none_or(|pod| text(pod, "/status/phase") != "Running") {
            calls.extend(missing_claims(view, set, &name));
        }
        if pod.is_none() {
            let path = format!("/api/v1/namespaces/{namespace}/pods");
            calls.push(Call::create(path, new_pod(set, &name)));
        }
        if !parallel && !pod.is_some_and(|pod| is_healthy(pod)) {
            return false;
        }
    }
    true
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

/// Deletes the pods whose ordinals are too high. Unless `parallel`, it deletes one at a time from
/// the highest ordinal down, an unhealthy one only once the lower surplus pods run.
///
/// Source: `processCondemned` in `pkg/controller/statefulset/stateful_set_control.go` of
/// Kubernetes.
fn scale_down(view: &View, set: &Value, parallel: bool, calls: &mut Vec<Call>) {
    let owned = |pod: &&Arc<Value>| {
        let mut owners = owners(pod).iter();
        owners.any(|owner| text(owner, "/uid") == uid(set))
    };
    let ordinal = |pod: &Value| name(pod).rsplit_once('-')?.1.parse::<u64>().ok();
    let pods = view.all("pods").filter(owned);
    let pods = pods.filter_map(|pod| Some((ordinal(pod)?, pod)));
    let mut condemned: Vec<_> = pods
        .filter(|(ordinal, _)| !ordinals(set).contains(ordinal))
        .collect();
    condemned.sort_by_key(|(ordinal, _)| Reverse(*ordinal));
    if !parallel {
        let below = condemned.iter().skip(1);
        let waits = below.clone().any(|(_, pod)| !is_healthy(pod));
        let highest = condemned.first();
        // An unhealthy pod is deleted first only if all lower surplus pods are healthy.
        if highest.is_some_and(|(_, pod)| !is_healthy(pod) && waits) {
            return;
        }
        condemned.truncate(1);
    }
    for (_, pod) in condemned.into_iter().filter(|(_, pod)| !is_deleting(pod)) {
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
