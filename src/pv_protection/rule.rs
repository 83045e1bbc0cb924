//! The rule: what to do with one volume.

use super::reasons;
use crate::{
    cluster::Action,
    objects::{
        Volume,
        finalizers::{PV_PROTECTION, Standing},
        volume::Phase,
    },
};

/// What the rule answers.
#[derive(Clone, Debug, PartialEq)]
pub enum Decision {
    /// Nothing is to be done; the reason is given where there is one to tell.
    Leave(Option<&'static str>),
    /// Do this, for this reason.
    Act(Action, &'static str),
}

/// Whether a claim has the volume, which keeps it.
pub fn is_held(volume: &Volume) -> bool {
    volume.phase == Phase::Bound
}

/// What to do with the volume.
pub fn decide(volume: &Volume) -> Decision {
    match volume.standing() {
        Standing::Settled => Decision::Leave(None),
        Standing::NeedsFinalizer => Decision::Act(
            Action::AddFinalizer(PV_PROTECTION),
            reasons::FINALIZER_MISSING,
        ),
        Standing::DeletionCandidate if is_held(volume) => Decision::Leave(Some(reasons::BOUND)),
        Standing::DeletionCandidate => {
            Decision::Act(Action::RemoveFinalizer(PV_PROTECTION), reasons::NOT_BOUND)
        }
    }
}
