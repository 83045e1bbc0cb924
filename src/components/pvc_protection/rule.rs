//! The rule: decides what to do with one claim, given the pods that name it.

use super::reasons;
use crate::{
    causes::{FinishedPods, uses},
    objects::{Claim, Pod, finalizers::FinalizerState},
};

/// Input of the rule.
#[derive(Clone, Debug)]
pub struct View<'a> {
    /// Name of the claim.
    pub name: &'a str,
    /// The claim.
    pub claim: &'a Claim,
    /// Pods of its namespace, at least all that name it.
    pub pods: &'a [&'a Pod],
    /// Whether finished pods count.
    pub finished_pods: FinishedPods,
}

/// Decision about a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Nothing, for this reason if there is one to report.
    Leave(Option<&'static str>),
    /// Add the finalizer.
    Protect,
    /// Remove the finalizer: no pod uses the claim.
    Unprotect,
}

/// Decision that the caches allow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cached {
    /// The caches suffice for this decision.
    Do(Step),
    /// The cache knows no user, which proves nothing: decide by a LIST of pods that began after
    /// the claim's deletion was seen.
    Confirm,
}

/// Decides by pods from a watch. They may be late, so they prove use and never disuse.
pub fn decide(view: &View<'_>) -> Cached {
    match decide_live(view) {
        Step::Unprotect => Cached::Confirm,
        step => Cached::Do(step),
    }
}

/// Decides by pods from a LIST that began after the claim's deletion was seen.
pub fn decide_live(view: &View<'_>) -> Step {
    match view.claim.finalizer_state() {
        FinalizerState::Settled => Step::Leave(None),
        FinalizerState::NeedsFinalizer => Step::Protect,
        FinalizerState::DeletionCandidate if in_use(view) => Step::Leave(Some(reasons::IN_USE)),
        FinalizerState::DeletionCandidate => Step::Unprotect,
    }
}

fn in_use(view: &View<'_>) -> bool {
    view.pods
        .iter()
        .any(|pod| uses(pod, view.name, view.claim, view.finished_pods))
}
