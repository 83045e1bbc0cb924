//! The admission warning for a user who deletes a claim that pods or finalizers will hold.

use crate::{
    admission::{Answer, Hook, Request, Review, Reviewed, Rule},
    causes::{self, FinishedPods, NamedPod, Object},
    cluster::Feed,
    objects::{Claim, ObjectName, Pod, claim::ClaimWire},
};
use std::{sync::Arc, time::Duration};

/// The webhook for deletions of claims. It warns which pods, or which finalizer of another
/// controller, will keep the claim Terminating. It refuses nothing.
pub fn deletions_hook(pods: &Arc<Feed<Pod>>, mode: FinishedPods) -> Hook {
    let pods = pods.clone();
    Hook {
        path: "/pvc-protection/deletions",
        rules: &[Rule("DELETE", "persistentvolumeclaims")],
        timeout: Duration::from_secs(1),
        review: Review::from_memory(move |request| deleted(request, &pods, mode)),
    }
}

fn deleted(request: &Request, pods: &Feed<Pod>, mode: FinishedPods) -> Reviewed {
    let claim = Claim::from(request.old_object::<ClaimWire>()?);
    // Before the pods are listed, the review succeeds without a warning: the API server would count
    // and report a failed call.
    if !pods.is_synced() {
        return Ok(Answer::Allow);
    }
    let name = ObjectName::new(request.namespace.as_str(), request.name.as_str());
    let users = users(pods, &name);
    let named: Vec<NamedPod<'_>> = users.iter().map(|(name, pod)| (name, &**pod)).collect();
    let holders = causes::claim_holders(&name.name, &claim, &named, mode);
    let object = Object::claim(&name.namespace, &name.name);
    Ok(Answer::warned(causes::warning(&object, &holders)))
}

/// The pods that name the claim, copied so that the lock on all pods is released.
pub(super) fn users(pods: &Feed<Pod>, claim: &ObjectName) -> Vec<(ObjectName, Arc<Pod>)> {
    let pods = pods.read();
    let users = pods.named_referrers(claim);
    users
        .map(|(name, pod)| (name.clone(), pod.clone()))
        .collect()
}
