//! The rule of the condition `Unused`: decides which status a claim's condition must get, given the
//! pods that name the claim.

use crate::objects::{Claim, Pod, claim::ClaimPhase, pod::Mount};

/// Decision about the condition of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Leave the condition unchanged.
    Leave,
    /// Write the status False: a pod uses the claim.
    Used,
    /// Write the status True: no pod uses the claim. Only a live LIST of pods proves it.
    Unused,
}

/// Decides about the condition of the claim, given at least all pods that name it. A pod that names
/// too many claims to keep their names may use the claim: that is no proof of use, but it prevents
/// the status True.
pub fn decide<'a>(name: &str, claim: &Claim, pods: impl IntoIterator<Item = &'a Pod>) -> Step {
    if claim.phase != ClaimPhase::Bound || claim.deleting {
        return Step::Leave;
    }
    let controller = claim.controller();
    let mut users = pods.into_iter().filter(|pod| uses(pod, name, controller));
    let mut may_be_used = false;
    let used = users.any(|pod| {
        may_be_used |= pod.mounts.are_too_many();
        !pod.mounts.are_too_many()
    });
    match claim.unused.map(|condition| condition.holds) {
        Some(true) | None if used => Step::Used,
        Some(false) | None if !used && !may_be_used => Step::Unused,
        _ => Step::Leave,
    }
}

/// Returns whether the pod uses the claim `name`, by the rule of the condition `Unused`. Unlike
/// the rule by which pvc-protection holds a claim, a pod that is not scheduled yet uses the claim,
/// and a pod whose containers have all ended does not. So a finished pod may hold a claim that is
/// Unused.
///
/// `controller` is the uid of the claim's controller, if it has one. An ephemeral volume uses the
/// claim only if its pod is that controller.
pub fn uses(pod: &Pod, name: &str, controller: Option<&str>) -> bool {
    let owns = controller.is_some_and(|uid| pod.uid == uid);
    let mounted = |mount: &Mount| !mount.ephemeral || owns;
    !pod.terminated() && pod.mounts.may_name(name, mounted)
}
