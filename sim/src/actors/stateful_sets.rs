//! The StatefulSet controller, without its own handling of claims.

use super::{Call, Controller};
use crate::{
    cluster::Cluster,
    json::{is_deleting, list, name, namespace, ordinals, owners, text, uid},
    view::View,
};
use serde_json::{Value, json};

/// The StatefulSet controller.
pub struct StatefulSets;

impl Controller for StatefulSets {
    const NAME: &'static str = "statefulset-controller";
    const USER: &'static str = "system:serviceaccount:kube-system:statefulset-controller";
    const KINDS: &'static [&'static str] = &["statefulsets", "pods", "persistentvolumeclaims"];

    fn act(&mut self, view: &View, _: &Cluster, _: u64) -> Vec<Call> {
        let sets = view.all("statefulsets").filter(|set| !is_deleting(set));
        sets.flat_map(|set| of_set(view, set)).collect()
    }
}

fn of_set(view: &View, set: &Value) -> Vec<Call> {
    let mut calls = Vec::new();
    let namespace = namespace(set);
    for ordinal in ordinals(set) {
        let pod = format!("{}-{ordinal}", name(set));
        for template in list(set, "/spec/volumeClaimTemplates") {
            let claim = format!("{}-{pod}", name(template));
            if view
                .get("persistentvolumeclaims", namespace, &claim)
                .is_none()
            {
                let path = format!("/api/v1/namespaces/{namespace}/persistentvolumeclaims");
                calls.push(Call::create(path, new_claim(set, template, &claim)));
            }
        }
        if view.get("pods", namespace, &pod).is_none() {
            calls.push(Call::create(
                format!("/api/v1/namespaces/{namespace}/pods"),
                new_pod(set, &pod),
            ));
        }
    }
    let owned = |pod: &&std::sync::Arc<Value>| {
        owners(pod)
            .iter()
            .any(|owner| text(owner, "/uid") == uid(set))
    };
    for pod in view
        .all("pods")
        .filter(owned)
        .filter(|pod| !is_deleting(pod))
    {
        let ordinal = name(pod)
            .rsplit_once('-')
            .and_then(|(_, ordinal)| ordinal.parse().ok());
        if ordinal.is_none_or(|ordinal: u64| !ordinals(set).contains(&ordinal)) {
            calls.push(Call::delete(
                format!("/api/v1/namespaces/{namespace}/pods/{}", name(pod)),
                uid(pod),
            ));
        }
    }
    calls
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
