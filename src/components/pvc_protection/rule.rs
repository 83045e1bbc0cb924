//! The rule of pvc-protection: decides whether the finalizer of a claim is added, removed or left,
//! given the pods that name the claim.

use crate::{
    causes::{FinishedPods, uses},
    objects::{Claim, Pod, finalizers::FinalizerState},
};

/// The claim and everything else that the rule reads.
#[derive(Clone, Debug)]
pub struct View<'a> {
    /// Name of the claim, by which pods refer to it.
    pub name: &'a str,
    /// The claim that is decided about.
    pub claim: &'a Claim,
    /// Pods of the claim's namespace, at least all pods that name the claim.
    pub pods: &'a [&'a Pod],
    /// Whether finished pods hold claims.
    pub finished_pods: FinishedPods,
}

/// Decision about a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The claim has its finalizer and is not being deleted, or is being deleted without it: leave
    /// it unchanged.
    UpToDate,
    /// A pod uses the claim, which is being deleted: leave it unchanged.
    InUse,
    /// Add the protection finalizer to the claim.
    Protect,
    /// Remove the protection finalizer from the claim, because no pod uses the claim.
    Unprotect,
}

/// Decision about a claim by pods from a watch, which may be late.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cached {
    /// The caches suffice for this decision.
    Do(Step),
    /// The cache knows no pod that uses the claim, which proves nothing: decide by a LIST of pods
    /// that began after the claim's deletion was seen.
    Confirm,
}

/// Decides about the claim by pods from a watch. The watch may be late, so it can prove that the
/// claim is in use, but never that it is not.
pub fn decide(view: &View<'_>) -> Cached {
    match decide_live(view) {
        Step::Unprotect => Cached::Confirm,
        step => Cached::Do(step),
    }
}

/// Decides about the claim by pods from a LIST that began after the claim's deletion was seen.
pub fn decide_live(view: &View<'_>) -> Step {
    match view.claim.finalizer_state() {
        FinalizerState::UpToDate => Step::UpToDate,
        FinalizerState::NeedsFinalizer => Step::Protect,
        FinalizerState::DeletionCandidate if in_use(view) => Step::InUse,
        FinalizerState::DeletionCandidate => Step::Unprotect,
    }
}

fn in_use(view: &View<'_>) -> bool {
    view.pods
        .iter()
        .any(|pod| uses(pod, view.name, view.claim, view.finished_pods))
}
