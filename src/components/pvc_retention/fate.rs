//! The fates of the claims of a StatefulSet.

use super::reasons;
use strum::VariantArray;

/// What happens to a claim, and why. The names are Event reasons, log fields and metric labels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, VariantArray)]
pub enum Fate {
    /// The claim is kept when the StatefulSet or the pod is deleted. With `whenScaled: Delete`, a
    /// later scale-down changes that.
    Retained,
    /// The garbage collector deletes the claim after the StatefulSet.
    DeletedWithSet,
    /// The claim is deleted after its pod, which is scaled down: by the garbage collector, or by
    /// Volume Warden if the pod was deleted before it owned the claim.
    DeletedWithPod,
    /// The claim is owned by an earlier StatefulSet or pod of the same name, so it is left to the
    /// garbage collector, which deletes it unless another owner exists.
    StaleOwner,
    /// Another object controls the claim, so the policy is not applied: references to the
    /// StatefulSet and its pod, and the marker, are removed.
    ConflictingController,
    /// `whenScaled` is Delete, the claim's ordinal is out of range and its pod does not exist, but
    /// the claim lacks the marker or has another owner. So it is not deleted: it may have been
    /// created for later use, or while `whenScaled` was Retain.
    ScaledDownUnmarked,
    /// The claim is being deleted, and its pod cannot be created before the claim is deleted.
    PodBlockedByClaim,
    /// The claim is being deleted, and no pod waits for it.
    Terminating,
}

impl Fate {
    /// The name of the fate in Events, logs and metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Retained => reasons::RETAINED,
            Self::DeletedWithSet => reasons::DELETED_WITH_SET,
            Self::DeletedWithPod => reasons::DELETED_WITH_POD,
            Self::StaleOwner => reasons::STALE_OWNER,
            Self::ConflictingController => reasons::CONFLICTING_CONTROLLER,
            Self::ScaledDownUnmarked => reasons::SCALED_DOWN_UNMARKED,
            Self::PodBlockedByClaim => reasons::POD_BLOCKED_BY_CLAIM,
            Self::Terminating => reasons::TERMINATING,
        }
    }
}
