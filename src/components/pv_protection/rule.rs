//! The rule of pv-protection: decides whether the finalizer of a volume is added, removed or left.

use super::reasons;
use crate::{
    causes::is_bound,
    cluster::{Action, Basis},
    objects::{
        Volume,
        finalizers::{FinalizerState, PV_PROTECTION},
    },
};

/// Decision about a volume.
#[derive(Clone, Debug, PartialEq)]
pub enum Decision {
    /// Leave the volume unchanged, for this reason if there is one to report.
    Leave(Option<&'static str>),
    /// Perform this action on the volume, for this reason.
    Act(Action, &'static str),
}

/// Decides whether the finalizer of the volume is added, removed or left.
pub fn decide(volume: &Volume) -> Decision {
    match volume.finalizer_state() {
        FinalizerState::UpToDate => Decision::Leave(None),
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
