//! The rule of pv-releaser: decides what happens to a volume.

use super::{Options, Scope};
use crate::objects::{
    Claim, ManagedBy, StorageClass, Volume,
    managed_by::Ownership,
    volume::{ClaimRef, Phase},
};
use clap::ValueEnum;
use strum::IntoStaticStr;

/// The volume and everything else that [`decide`] reads, except the options.
#[derive(Clone, Copy, Debug)]
pub struct View<'a, D> {
    /// The volume that is decided about, as the watch or an admission review delivered it.
    pub volume: &'a Volume,
    /// Whether the namespace of the volume's claim is watched. If not, it is unknown whether the
    /// claim exists.
    pub watched: bool,
    /// Whether the namespace of the volume's claim has opted out.
    pub excluded: bool,
    /// The watched claim with the name in `claimRef`, with any uid; none if `claimRef` has no uid.
    pub claim: Option<&'a Claim>,
    /// The last managed-by labels of the claim with the uid in `claimRef`, if it was deleted
    /// recently.
    pub recently_deleted: Option<&'a ManagedBy>,
    /// The annotations of the StorageClass of the volume; none if no rule needs any of them.
    pub class: Option<&'a StorageClass>,
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

/// No VolumeAttachment of the volume is known, which does not prove that none exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unconfirmed;

/// What the rule decides about a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision<D> {
    /// Leave the volume unchanged, for this reason.
    Leave(LeaveReason),
    /// Label the volume as managed, and in the scope `namespace` record the namespace of its claim,
    /// if a live read proves it. A stored volume is labelled only when [`Decision::is_in_time`].
    Associate,
    /// Record the namespace of the volume's claim on the volume, if a live read proves it, and that
    /// the volume is not reserved any more. Only the scope `namespace` requires the record: without
    /// it, a Released volume then stays Released: [`LeaveReason::Unrecorded`].
    Record,
    /// Release the volume from its deleted claim, so that claims in this scope may get it. `D` says
    /// how it is known that the volume is detached.
    Release(Scope, D),
}

impl<D> Decision<D> {
    /// Returns whether the decision may be carried out on a stored volume in this phase. A label
    /// or a record has to wait while the phase is Pending or Available.
    ///
    /// The phase Bound is the last write of kube-controller-manager's binder to a volume, after the
    /// claimRef. A write of another client between these two makes the write of the phase fail with
    /// a conflict, and the binding waits for the binder's next resync, up to 15 s later. The change
    /// of the phase enqueues the volume again.
    pub fn is_in_time(&self, phase: Phase) -> bool {
        !matches!(self, Self::Associate | Self::Record) || phase != Phase::Other
    }
}

/// Why a volume is left unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, IntoStaticStr)]
pub enum LeaveReason {
    /// The namespace of the volume's claim has opted out.
    Excluded,
    /// No label or class assigns the volume to this installation, and the volume is not
    /// [`Self::Orphaned`].
    Unlabeled,
    /// The volume has the label of another installation.
    OtherInstallation,
    /// The volume is managed, but its phase is not Released, or the watch still has its claim.
    InUse,
    /// The volume is managed and Released, but its `claimRef` is removed or has no uid any more, so
    /// kube-controller-manager sets the phase Available next.
    Freed,
    /// The volume is managed and Released, but its reclaim policy is not Retain: the provisioner
    /// may delete its data.
    NotRetained,
    /// The volume is managed and Released, but is being deleted.
    Deleting,
    /// The volume is managed and Released, but a node may still write to it.
    Attached,
    /// The volume is managed and Released, but its label for the scope, or else the annotation of
    /// its StorageClass, is neither `namespace` nor `cluster`.
    InvalidScope,
    /// The volume is managed and Released, but no record says in which namespace its claim was.
    Unrecorded,
    /// The volume is managed, Released and only for claims of its namespace, but `--namespace`
    /// names another one.
    Unwatched,
    /// The volume stays Released: its claim is deleted, and no label or class assigns the volume to
    /// an installation.
    Orphaned,
    /// The volume has the annotation with the record of pvc-trash, which then decides about it.
    InTrash,
}

impl LeaveReason {
    /// The name of the reason in logs and metrics.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// Decides what happens to the volume.
pub fn decide<D: Copy>(view: &View<'_, D>, options: &Options) -> Decision<D> {
    match decide_included(view, options) {
        Decision::Associate
        | Decision::Record
        | Decision::Release(..)
        | Decision::Leave(LeaveReason::Orphaned)
            if view.excluded =>
        {
            Decision::Leave(LeaveReason::Excluded)
        }
        decision => decision,
    }
}

fn decide_included<D: Copy>(view: &View<'_, D>, options: &Options) -> Decision<D> {
    match options.volume_ownership(view.volume) {
        _ if view.volume.trash.is_some() => Decision::Leave(LeaveReason::InTrash),
        Ownership::Foreign => Decision::Leave(LeaveReason::OtherInstallation),
        Ownership::Own => view.release(options),
        Ownership::Unlabeled if view.is_to_be_associated(options) => Decision::Associate,
        Ownership::Unlabeled if view.is_managed_by_class(options) => view.release(options),
        Ownership::Unlabeled if view.is_orphaned(options) => Decision::Leave(LeaveReason::Orphaned),
        Ownership::Unlabeled if view.was_reserved() => Decision::Record,
        Ownership::Unlabeled => Decision::Leave(LeaveReason::Unlabeled),
    }
}

/// Returns the scope of the release of the volume; none if its label, or else the annotation of its
/// StorageClass, has an invalid value. Tenants can write neither.
pub(super) fn scope(
    volume: &Volume,
    class: Option<&StorageClass>,
    options: &Options,
) -> Option<Scope> {
    let label = volume.reuse.as_ref().and_then(|all| all.scope.as_deref());
    let class = class.and_then(|class| class.release_scope.as_deref());
    match label.or(class) {
        Some(scope) => Scope::from_str(scope, false).ok(),
        None => Some(options.scope()),
    }
}

impl<D: Copy> View<'_, D> {
    fn release(&self, options: &Options) -> Decision<D> {
        let (volume, scope) = (self.volume, scope(self.volume, self.class, options));
        let for_namespace = scope == Some(Scope::Namespace);
        let unrecorded = for_namespace && self.watched && !volume.is_recorded();
        let left = match (self.attachment, scope) {
            _ if volume.phase == Phase::Bound && self.stays() && unrecorded => {
                return Decision::Record;
            }
            _ if volume.phase != Phase::Released => LeaveReason::InUse,
            _ if volume.claimed_by().is_none() => LeaveReason::Freed,
            // kube-controller-manager found no claim and set the phase Released, but the watch
            // still has the claim. When the watch delivers its deletion, the volume is enqueued.
            _ if volume
                .claimed_by()
                .is_some_and(|claim| self.existing_claim(claim).is_some()) =>
            {
                LeaveReason::InUse
            }
            _ if volume.deleting => LeaveReason::Deleting,
            _ if !volume.retains() => LeaveReason::NotRetained,
            (_, None) => LeaveReason::InvalidScope,
            // Nothing would end the reservation when the namespace is deleted, or give the parked
            // volume to a claim.
            _ if for_namespace && !self.watched => LeaveReason::Unwatched,
            _ if unrecorded => return Decision::Record,
            (Attachment::Attached, _) => LeaveReason::Attached,
            (Attachment::Detached(evidence), Some(scope)) => {
                return Decision::Release(scope, evidence);
            }
        };
        Decision::Leave(left)
    }

    /// Returns whether the volume gets the label: `--disable-automatic-association` is not set, its
    /// policy is Retain, it is not being deleted, and this installation manages its claim, found by
    /// uid. The phase does not matter: the claim may be deleted before the volume is processed.
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
    /// only with `--associate-by-storage-class`, and for volumes that have the policy Retain and
    /// are not being deleted: otherwise an Event would report each Released volume with the policy
    /// Delete as one that is not released.
    fn is_managed_by_class(&self, options: &Options) -> bool {
        let own = self.class_id() == Some(options.id.as_str());
        options.associate_by_storage_class && own && self.stays()
    }

    fn class_id(&self) -> Option<&str> {
        self.class?.controller_id.as_deref()
    }

    fn is_orphaned(&self, options: &Options) -> bool {
        let claim = self.volume.claimed_by();
        let claim_is_gone =
            claim.is_some_and(|claim| self.watched && self.existing_claim(claim).is_none());
        let released = self.volume.phase == Phase::Released && self.stays();
        // A volume is no orphan if another installation managed its claim, or its class names
        // another one.
        let foreign = |labels: &ManagedBy| !options.is_own_claim(labels);
        let of_another = self.class_id().is_some_and(|id| id != options.id.as_str());
        let anothers = of_another || self.recently_deleted.is_some_and(foreign);
        released && claim_is_gone && !anothers
    }

    /// Returns whether the volume is Bound to a claim for which Volume Warden had reserved it, and
    /// still says so: an administrator who later reserves it for another claim would see that
    /// reservation end after a minute, as one of Volume Warden.
    fn was_reserved(&self) -> bool {
        let volume = self.volume;
        let bound = volume.phase == Phase::Bound && volume.claimed_by().is_some();
        bound && self.watched && self.stays() && volume.reserved_at().is_some()
    }

    fn stays(&self) -> bool {
        self.volume.retains() && !self.volume.deleting
    }

    fn existing_claim(&self, claim_ref: &ClaimRef) -> Option<&Claim> {
        self.claim.filter(|claim| claim.uid == claim_ref.uid)
    }

    fn labels(&self, claim_ref: &ClaimRef) -> Option<&ManagedBy> {
        match self.existing_claim(claim_ref) {
            Some(claim) => claim.rare.managed_by.as_deref(),
            None => self.recently_deleted,
        }
    }
}
