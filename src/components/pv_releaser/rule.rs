//! The rule: what to do with one volume.

use super::Options;
use crate::objects::{
    Claim, ManagedBy, Volume,
    managed_by::Ownership,
    volume::{ClaimRef, Phase},
};
use strum::IntoStaticStr;

/// What the rule looks at.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    /// The volume.
    pub volume: &'a Volume,
    /// Claims of the namespace of its claim are watched. Otherwise nothing is known of that claim.
    pub watched: bool,
    /// The claim of the name that the volume says, whatever its uid.
    pub claim: Option<&'a Claim>,
    /// The last labels of the claim of the uid that the volume says, if it had any and went not long ago.
    pub recently_deleted: Option<&'a ManagedBy>,
    /// Which installation the StorageClass of the volume names, where classes count.
    pub class: Option<&'a str>,
    /// Whether a node has the volume.
    pub attachment: Attachment,
}

/// What is known of VolumeAttachments that name the volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attachment {
    /// There is one.
    Caches,
    /// The watch knows none, which proves nothing.
    NotKnown,
    /// A LIST that began after the volume was seen had none.
    Absent,
}

/// What the rule answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Nothing is to be done.
    Leave(Left),
    /// Label it as ours. One that is stored already, only once it is [`Decision::is_in_time`].
    Associate,
    /// Release it if a LIST shows no attachment.
    Confirm,
    /// Free it of its claim.
    Release,
}

impl Decision {
    /// Whether a stored volume in this phase may be written now.
    ///
    /// Bound is the last write of kube-controller-manager's binder to a volume, after the
    /// claimRef. A write of another client in between makes the binder's fail with a conflict, and
    /// the binding waits for its next resync, up to 15 s later. The change of the phase asks
    /// again.
    pub fn is_in_time(self, phase: Phase) -> bool {
        self != Self::Associate || phase != Phase::Other
    }
}

/// Why a volume is left as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, IntoStaticStr)]
pub enum Left {
    /// Nothing says that it is ours.
    Unlabeled,
    /// It is labelled for somebody else.
    OtherInstallation,
    /// It is ours and not Released.
    InUse,
    /// It is ours and has been freed of its claim; the phase follows.
    Freed,
    /// It is ours and Released, but whoever provisioned it is about to delete what is on it.
    NotRetained,
    /// It is ours and Released, but is being deleted.
    Deleting,
    /// It is ours and Released, but a node may still write to it.
    Attached,
    /// It is Released for good: its claim is gone, and nothing says whose it is.
    Orphaned,
}

impl Left {
    /// For the log.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// What to do with the volume.
pub fn decide(view: &View<'_>, options: &Options) -> Decision {
    match options.whose(view.volume) {
        Ownership::Foreign => Decision::Leave(Left::OtherInstallation),
        Ownership::Own => view.release(),
        Ownership::Unlabeled if view.is_to_be_associated(options) => Decision::Associate,
        Ownership::Unlabeled if view.is_ours_by_class(options) => view.release(),
        Ownership::Unlabeled if view.is_orphaned(options) => Decision::Leave(Left::Orphaned),
        Ownership::Unlabeled => Decision::Leave(Left::Unlabeled),
    }
}

impl View<'_> {
    fn release(&self) -> Decision {
        let volume = self.volume;
        let left = match self.attachment {
            _ if volume.phase != Phase::Released => Left::InUse,
            _ if volume.claimed_by().is_none() => Left::Freed,
            _ if volume.deleting => Left::Deleting,
            _ if !volume.retain => Left::NotRetained,
            Attachment::Caches => Left::Attached,
            Attachment::NotKnown => return Decision::Confirm,
            Attachment::Absent => return Decision::Release,
        };
        Decision::Leave(left)
    }

    /// Its claim, by uid, says that it is ours. In any phase: the claim may be gone by the time that somebody looks.
    pub(super) fn is_to_be_associated(&self, options: &Options) -> bool {
        let labels = self
            .volume
            .claimed_by()
            .and_then(|claim| self.labels(claim));
        !options.disable_automatic_association
            && self.stays()
            && labels.is_some_and(|each| options.is_own_claim(each))
    }

    /// A class whose volumes go with their claims says nothing to us: that is how most classes are.
    fn is_ours_by_class(&self, options: &Options) -> bool {
        let ours = self.class == Some(options.id.as_str());
        options.associate_by_storage_class && ours && self.stays()
    }

    fn is_orphaned(&self, options: &Options) -> bool {
        let claim = self.volume.claimed_by();
        let claim_is_gone = claim.is_some_and(|claim| self.watched && self.living(claim).is_none());
        let released = self.volume.phase == Phase::Released && self.stays();
        // Its claim was another installation's, and then so is the volume.
        let foreign = |labels: &ManagedBy| !options.is_own_claim(labels);
        let anothers = self.class.is_some() || self.recently_deleted.is_some_and(foreign);
        released && claim_is_gone && !anothers
    }

    /// It outlives its claim.
    fn stays(&self) -> bool {
        self.volume.retain && !self.volume.deleting
    }

    fn living(&self, claim_ref: &ClaimRef) -> Option<&Claim> {
        self.claim.filter(|claim| claim.uid == claim_ref.uid)
    }

    fn labels(&self, claim_ref: &ClaimRef) -> Option<&ManagedBy> {
        match self.living(claim_ref) {
            Some(claim) => claim.managed_by.as_deref(),
            None => self.recently_deleted,
        }
    }
}
