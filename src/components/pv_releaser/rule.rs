//! The rule of pv-releaser: decides whether a volume is labelled, released or left unchanged.

use super::Options;
use crate::objects::{
    Claim, ManagedBy, Volume,
    managed_by::Ownership,
    volume::{ClaimRef, Phase},
};
use strum::IntoStaticStr;

/// The volume and everything else that the rule reads.
#[derive(Clone, Copy, Debug)]
pub struct View<'a, D> {
    /// The volume.
    pub volume: &'a Volume,
    /// Whether the namespace of the volume's claim is watched. If not, it is unknown whether the
    /// claim exists.
    pub watched: bool,
    /// The claim with the name in `claimRef`, with any uid.
    pub claim: Option<&'a Claim>,
    /// The last labels of the claim with the uid in `claimRef`, if it was deleted recently.
    pub recently_deleted: Option<&'a ManagedBy>,
    /// The installation that the StorageClass of the volume names, if classes are watched.
    pub class: Option<&'a str>,
    /// Whether the volume is attached to a node.
    pub attachment: Attachment<D>,
}

/// Whether a VolumeAttachment names the volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attachment<D> {
    /// The watch has delivered a VolumeAttachment that names the volume.
    Attached,
    /// No VolumeAttachment is known that names the volume: [`Unconfirmed`] by the watch, or with
    /// the proof of a LIST that began after the volume was read.
    Detached(D),
}

/// The watch has delivered no VolumeAttachment, which does not prove that none exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unconfirmed;

/// Decision about a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision<D> {
    /// Leave the volume unchanged, for this reason.
    Leave(Left),
    /// Label the volume as managed. A stored volume is labelled only when
    /// [`Decision::is_in_time`].
    Associate,
    /// Release the volume from its claim, by this evidence that it is detached.
    Release(D),
}

impl<D> Decision<D> {
    /// Returns whether a stored volume in this phase may be written now.
    ///
    /// The phase Bound is the last write of kube-controller-manager's binder to a volume, after the
    /// claimRef. A write of another client between these two makes the write of the phase fail with
    /// a conflict, and the binding waits for the binder's next resync, up to 15 s later. The change
    /// of the phase enqueues the volume again.
    pub fn is_in_time(&self, phase: Phase) -> bool {
        !matches!(self, Self::Associate) || phase != Phase::Other
    }
}

/// Why a volume is left unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, IntoStaticStr)]
pub enum Left {
    /// No label or class assigns the volume to this installation.
    Unlabeled,
    /// The volume has the label of another installation.
    OtherInstallation,
    /// The volume is managed and not Released.
    InUse,
    /// The volume is managed and has been released from its claim; its phase changes next.
    Freed,
    /// The volume is managed and Released, but its reclaim policy is not Retain: the provisioner
    /// may delete its data.
    NotRetained,
    /// The volume is managed and Released, but is being deleted.
    Deleting,
    /// The volume is managed and Released, but a node may still write to it.
    Attached,
    /// The volume stays Released: its claim is deleted, and no label or class assigns the volume to
    /// an installation.
    Orphaned,
}

impl Left {
    /// The name of the reason in logs and metrics.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// Decides whether the volume is labelled, released or left unchanged.
pub fn decide<D: Copy>(view: &View<'_, D>, options: &Options) -> Decision<D> {
    match options.whose(view.volume) {
        Ownership::Foreign => Decision::Leave(Left::OtherInstallation),
        Ownership::Own => view.release(),
        Ownership::Unlabeled if view.is_to_be_associated(options) => Decision::Associate,
        Ownership::Unlabeled if view.is_ours_by_class(options) => view.release(),
        Ownership::Unlabeled if view.is_orphaned(options) => Decision::Leave(Left::Orphaned),
        Ownership::Unlabeled => Decision::Leave(Left::Unlabeled),
    }
}

impl<D: Copy> View<'_, D> {
    fn release(&self) -> Decision<D> {
        let volume = self.volume;
        let left = match self.attachment {
            _ if volume.phase != Phase::Released => Left::InUse,
            _ if volume.claimed_by().is_none() => Left::Freed,
            _ if volume.deleting => Left::Deleting,
            _ if !volume.retain => Left::NotRetained,
            Attachment::Attached => Left::Attached,
            Attachment::Detached(evidence) => return Decision::Release(evidence),
        };
        Decision::Leave(left)
    }

    /// Returns whether this installation manages the volume's claim, found by uid. The phase does
    /// not matter: the claim may be deleted before the volume is processed.
    pub(super) fn is_to_be_associated(&self, options: &Options) -> bool {
        let labels = self
            .volume
            .claimed_by()
            .and_then(|claim| self.labels(claim));
        !options.disable_automatic_association
            && self.stays()
            && labels.is_some_and(|each| options.is_own_claim(each))
    }

    /// Returns whether the StorageClass assigns the volume to this installation. A class counts
    /// only for volumes that are kept after their claims, because the policy of most classes is
    /// Delete.
    fn is_ours_by_class(&self, options: &Options) -> bool {
        let own = self.class == Some(options.id.as_str());
        options.associate_by_storage_class && own && self.stays()
    }

    fn is_orphaned(&self, options: &Options) -> bool {
        let claim = self.volume.claimed_by();
        let claim_is_gone = claim.is_some_and(|claim| self.watched && self.living(claim).is_none());
        let released = self.volume.phase == Phase::Released && self.stays();
        // If another installation managed the claim, it manages the volume too.
        let foreign = |labels: &ManagedBy| !options.is_own_claim(labels);
        let anothers = self.class.is_some() || self.recently_deleted.is_some_and(foreign);
        released && claim_is_gone && !anothers
    }

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
