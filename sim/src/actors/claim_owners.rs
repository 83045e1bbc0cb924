//! The owner references of claims that the StatefulSet controller of Kubernetes 1.32 and later
//! writes itself.
//!
//! Source: `pkg/controller/statefulset/stateful_set_utils.go` of Kubernetes
//! (`isClaimOwnerUpToDate`, `updateClaimOwnerRefForSetAndPod`).

use super::Call;
use crate::{
    json::{deletes_claims, is_owner_named, list, name, namespace, ordinals, owners, text, uid},
    view::View,
};
use serde_json::{Value, json};
use std::sync::Arc;

/// The replacement of each claim of the pod whose owners are not those of the retention policy.
pub fn updates(view: &View, set: &Value, pod: &Value) -> Vec<Call> {
    claims_of(view, set, name(pod))
        .filter_map(|claim| {
            let path = format!(
                "/api/v1/namespaces/{}/persistentvolumeclaims/{}",
                namespace(claim),
                name(claim)
            );
            Some(Call::replace(path, updated(claim, set, pod)?))
        })
        .collect()
}

/// Whether an earlier pod of the name owns a claim of the missing pod. The garbage collector
/// deletes such a claim.
///
/// Source: `PodClaimIsStale` in `pkg/controller/statefulset/stateful_pod_control.go`.
pub fn are_stale(view: &View, set: &Value, pod: &str) -> bool {
    deletes_claims(set, "whenScaled")
        && claims_of(view, set, pod).any(|claim| {
            let mut owners = owners(claim).iter();
            owners.any(|owner| is_owner_named(owner, "Pod", pod))
        })
}

/// The claims of the pod of this name that exist.
pub fn claims_of<'a>(
    view: &'a View,
    set: &'a Value,
    pod: &'a str,
) -> impl Iterator<Item = &'a Arc<Value>> {
    let templates = list(set, "/spec/volumeClaimTemplates").iter();
    templates.filter_map(move |template| {
        let claim = format!("{}-{pod}", name(template));
        view.get("persistentvolumeclaims", namespace(set), &claim)
    })
}

/// The claim with the owner that the policy requires; none if the claim has it already, or if an
/// earlier StatefulSet or pod of the name owns it.
fn updated(claim: &Value, set: &Value, pod: &Value) -> Option<Value> {
    let possible = [("apps/v1", "StatefulSet", set), ("v1", "Pod", pod)];
    let is_own = |owner: &Value| {
        let mut possible = possible.iter();
        possible.any(|(_, _, object)| text(owner, "/uid") == uid(object))
    };
    let is_stale = |owner: &Value| {
        let mut possible = possible.iter();
        possible.any(|(_, kind, object)| {
            is_owner_named(owner, kind, name(object)) && text(owner, "/uid") != uid(object)
        })
    };
    if owners(claim).iter().any(is_stale) {
        return None;
    }
    let (own, others): (Vec<&Value>, Vec<&Value>) =
        owners(claim).iter().partition(|owner| is_own(owner));
    let contested = others.iter().any(|owner| owner["controller"] == true);
    let wanted = match wanted(set, pod) {
        Some(kind) if !contested => possible.iter().find(|(_, each, _)| *each == kind),
        _ => None,
    };
    let up_to_date = match wanted {
        Some((_, _, object)) => own.len() == 1 && text(own[0], "/uid") == uid(object),
        None => own.is_empty(),
    };
    if up_to_date {
        return None;
    }
    let reference = wanted.map(|(version, kind, object)| {
        json!({
            "apiVersion": version, "kind": kind, "name": name(object), "uid": uid(object),
            "controller": true, "blockOwnerDeletion": true,
        })
    });
    let after: Vec<Value> = others.into_iter().cloned().chain(reference).collect();
    let mut updated = claim.clone();
    updated["metadata"]["ownerReferences"] = after.into();
    Some(updated)
}

/// The kind of the owner that the policy requires.
fn wanted(set: &Value, pod: &Value) -> Option<&'static str> {
    let ordinal = name(pod).rsplit_once('-').map(|(_, ordinal)| ordinal);
    let ordinal = ordinal.and_then(|ordinal| ordinal.parse::<u64>().ok());
    let condemned = ordinal.is_some_and(|ordinal| !ordinals(set).contains(&ordinal));
    if deletes_claims(set, "whenScaled") && condemned {
        return Some("Pod");
    }
    deletes_claims(set, "whenDeleted").then_some("StatefulSet")
}
