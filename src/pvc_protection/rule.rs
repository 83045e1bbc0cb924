//! The rule: what to do with one claim, given the pods that name it.

use super::reasons;
use crate::{
    causes::{FinishedPods, uses},
    cluster::Action,
    objects::{
        Claim, Pod,
        finalizers::{PVC_PROTECTION, Standing},
    },
};

/// Where the pods of a view come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// From a watch: possibly late, so it proves use and never disuse.
    Cache,
    /// From a LIST that began after the claim's deletion was seen.
    Live,
}

/// What the rule looks at.
#[derive(Clone, Debug)]
pub struct View<'a> {
    /// Name of the claim.
    pub name: &'a str,
    /// The claim.
    pub claim: &'a Claim,
    /// Pods of its namespace, at least all that name it.
    pub pods: &'a [&'a Pod],
    /// Where they come from.
    pub source: Source,
    /// Whether finished pods count.
    pub finished_pods: FinishedPods,
}

/// What the rule answers.
#[derive(Clone, Debug, PartialEq)]
pub enum Decision {
    /// Nothing is to be done; the reason is given where there is one to tell.
    Leave(Option<&'static str>),
    /// The cache knows no user. Read the pods live and ask again.
    Confirm,
    /// Do this, for this reason.
    Act(Action, &'static str),
}

/// What to do with the claim.
pub fn decide(view: &View<'_>) -> Decision {
    match view.claim.standing() {
        Standing::Settled => Decision::Leave(None),
        Standing::NeedsFinalizer => Decision::Act(
            Action::add_finalizer(PVC_PROTECTION),
            reasons::FINALIZER_MISSING,
        ),
        Standing::DeletionCandidate if in_use(view) => Decision::Leave(Some(reasons::IN_USE)),
        Standing::DeletionCandidate => match view.source {
            Source::Cache => Decision::Confirm,
            Source::Live => {
                Decision::Act(Action::remove_finalizer(PVC_PROTECTION), reasons::UNUSED)
            }
        },
    }
}

fn in_use(view: &View<'_>) -> bool {
    view.pods
        .iter()
        .any(|pod| uses(pod, view.name, view.claim, view.finished_pods))
}
