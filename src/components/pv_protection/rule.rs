//! The rule: what to do with one volume.

use super::reasons;
use crate::{
    causes::is_bound,
    cluster::{Action, Basis},
    objects::{
        Volume,
        finalizers::{FinalizerState, PV_PROTECTION},
    },
};

/// Decision of the rule.
#[derive(Clone, Debug, PartialEq)]
pub enum Decision {
    /// No action, for this reason if there is one to report.
    Leave(Option<&'static str>),
    /// Perform the action, for this reason.
    Act(Action, &'static str),
}

/// Decides what to do with the volume.
pub fn decide(volume: &Volume) -> Decision {
    match volume.finalizer_state() {
        FinalizerState::Settled => Decision::Leave(None),
        FinalizerState::NeedsFinalizer => Decision::Act(
            Action::add_finalizer(PV_PROTECTION),
            reasons::FINALIZER_MISSING,
        ),
        FinalizerState::DeletionCandidate if is_bound(volume) => {
            Decision::Leave(Some(reasons::BOUND))
        }
        FinalizerState::DeletionCandidate => Decision::Act(
            Action::remove_finalizer(PV_PROTECTION, Basis::Object),
            reasons::NOT_BOUND,
        ),
    }
}
