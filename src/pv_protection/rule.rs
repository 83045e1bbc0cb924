//! The rule: what to do with one volume.

use super::reasons;
use crate::{
    causes::is_bound,
    cluster::{Action, Basis},
    objects::{
        Volume,
        finalizers::{PV_PROTECTION, Standing},
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

/// What to do with the volume.
pub fn decide(volume: &Volume) -> Decision {
    match volume.standing() {
        Standing::Settled => Decision::Leave(None),
        Standing::NeedsFinalizer => Decision::Act(
            Action::add_finalizer(PV_PROTECTION),
            reasons::FINALIZER_MISSING,
        ),
        Standing::DeletionCandidate if is_bound(volume) => Decision::Leave(Some(reasons::BOUND)),
        Standing::DeletionCandidate => Decision::Act(
            Action::remove_finalizer(PV_PROTECTION, Basis::Object),
            reasons::NOT_BOUND,
        ),
    }
}
