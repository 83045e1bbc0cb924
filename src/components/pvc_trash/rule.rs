//! The rule of pvc-trash: what happens next to a volume.

mod record;

use super::recorded::is_for;
use crate::objects::{
    Claim, ObjectName, Volume,
    trash::{OriginalPolicy, TrashRecord},
    undelete_window::{NamespaceWindow, Window},
    volume::{ClaimRef, Phase},
};
use k8s_openapi::jiff::Timestamp;
use record::{is_current, moved};
use std::time::Duration;
use strum::IntoStaticStr;

pub use record::record_at_creation;

/// The volume and everything else that the rule reads.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    /// The volume that is decided about.
    pub volume: &'a Volume,
    /// What the StorageClass of the volume requests; none without a readable annotation.
    pub class: Option<Window>,
    /// The longest window that the StorageClass permits to a namespace; without it, no namespace
    /// may lengthen the window of the class.
    pub longest: Option<Duration>,
    /// What the namespace of the claim requests.
    pub namespace: NamespaceWindow,
    /// The claim with the name in `claimRef`, with any uid.
    pub claim: Option<&'a Claim>,
    /// Whether the namespace of the claim has opted out.
    pub excluded: bool,
    /// Whether the trash of the claim's namespace has reached its limit.
    pub full: bool,
    /// A Pending claim that requests the data of this volume.
    pub requesting_claim: Option<&'a ObjectName>,
}

/// Decision about a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Leave the volume unchanged, for this reason.
    Leave(LeaveReason),
    /// Set the policy Retain and write this record. Live reads add the uid of the namespace, and
    /// the labels and annotations of the claim.
    Record(TrashRecord),
    /// Give the volume its original policy back and remove the record, if a live read shows that
    /// the claim is not being deleted and not announced to expire.
    Disable,
    /// Record the time of the deletion, if a live read shows that the claim does not exist.
    MoveToTrash(TrashRecord),
    /// The volume is in the trash until this time. After it, or at once if `requested`, it is
    /// purged.
    Keep {
        /// When the window ends.
        until: Timestamp,
        /// Whether a user requested the purge.
        requested: bool,
    },
    /// Reserve the volume for this claim, if live reads show that the claim may have it.
    Restore(ObjectName),
    /// The volume is reserved for a claim that is not Bound yet.
    AwaitBinding,
    /// Return the volume to the trash, unless a live read shows that the claim that it is reserved
    /// for is Bound to it.
    ReturnToTrash,
}

/// Why a volume is left unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, IntoStaticStr)]
pub enum LeaveReason {
    /// The trash is not enabled for the volume.
    NotEnabled,
    /// The trash is not enabled for the volume, because the trash of its claim's namespace has
    /// reached its limit.
    Full,
    /// The volume is Bound, and its claim can be restored after a deletion.
    Enabled,
    /// The volume is being deleted.
    Deleting,
    /// The policy of the volume is not Retain any more, as after a purge: its provisioner deletes
    /// it.
    Purging,
    /// The volume is in the trash. Its policy was Retain, so it is never purged.
    Kept,
    /// The volume would be purged, but another volume has the same data. Only live reads show that,
    /// so [`decide`] does not return it.
    Shared,
    /// The record of the volume cannot be read.
    Unreadable,
    /// The class disables the trash, but the claim is being deleted or does not exist any more, so
    /// the volume keeps the policy Retain and its record.
    Terminating,
    /// The class disables the trash, but the claim is announced to expire: pvc-expiry may be
    /// deleting it, and relies on the record. It removes the announcement once it sees the class.
    Announced,
}

impl LeaveReason {
    /// The name of the reason in logs and metrics.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// Decides what happens next to the volume.
pub fn decide(view: &View<'_>) -> Decision {
    let (volume, trash) = (view.volume, view.volume.trash.as_deref());
    let record = match trash.map(|trash| trash.record.as_ref()) {
        Some(None) => return Decision::Leave(LeaveReason::Unreadable),
        Some(record) => record,
        None => None,
    };
    match (volume.phase, volume.claimed_by(), record) {
        _ if volume.deleting => Decision::Leave(LeaveReason::Deleting),
        (Phase::Bound, Some(claim), record) => view.bound(claim, record),
        (Phase::Released, Some(claim), Some(record)) => view.released(claim, record),
        (Phase::Failed, Some(_), Some(_)) if !volume.retains() => {
            Decision::Leave(LeaveReason::Purging)
        }
        // It is Released until kube-controller-manager has seen the reservation, and stays so if
        // that does not run.
        (Phase::Other | Phase::Released, None, Some(record)) if record.reserved_at.is_some() => {
            if volume.retains() {
                view.reserved(record)
            } else {
                // With the uid of the deleted claim, the provisioner would delete its data.
                Decision::Leave(LeaveReason::Purging)
            }
        }
        _ => Decision::Leave(LeaveReason::NotEnabled),
    }
}

impl View<'_> {
    fn bound(&self, claim_ref: &ClaimRef, record: Option<&TrashRecord>) -> Decision {
        let existing_claim = self.existing_claim(claim_ref);
        let window = match (self.class, record) {
            (Some(Window::Off), None) | (None, None) => {
                return Decision::Leave(LeaveReason::NotEnabled);
            }
            (Some(Window::Off), Some(_)) => {
                return match existing_claim.filter(|claim| !claim.deleting) {
                    None => Decision::Leave(LeaveReason::Terminating),
                    Some(claim) if claim.rare.is_announced() => {
                        Decision::Leave(LeaveReason::Announced)
                    }
                    Some(_) => Decision::Disable,
                };
            }
            (Some(Window::For(_)), None) if self.excluded => {
                return Decision::Leave(LeaveReason::NotEnabled);
            }
            (Some(Window::For(window)), None) => match existing_claim {
                Some(existing_claim) => self.window(window, Some(existing_claim)),
                // The watch does not have the claim, so its annotations are not known. Either it is
                // deleted, or a later event delivers it.
                None => return Decision::Leave(LeaveReason::NotEnabled),
            },
            (Some(Window::For(window)), Some(_))
                if existing_claim.is_some() && !window.is_zero() && self.knows_namespace() =>
            {
                self.window(window, existing_claim)
            }
            // A recorded window stays if the class has no annotation or the window 0, or if the
            // claim or the window of the namespace is not known.
            (_, Some(record)) => self.recorded_window(record, claim_ref),
        };
        let Some(desired) = self.record(claim_ref, window, record) else {
            return Decision::Leave(LeaveReason::NotEnabled);
        };
        // A full trash still keeps volumes that have a record. A volume that had the policy Retain
        // gets a record, too, because it does not count towards the limit.
        if self.full && record.is_none() && desired.policy == OriginalPolicy::Delete {
            return Decision::Leave(LeaveReason::Full);
        }
        let recorded =
            record.filter(|record| self.volume.retains() && record.claim.uid == desired.claim.uid);
        match recorded {
            Some(record) if is_current(record, &desired) => Decision::Leave(LeaveReason::Enabled),
            _ => Decision::Record(desired),
        }
    }

    /// Returns the claim that the volume is bound to, if the watch has it; not another one of the
    /// same name.
    fn existing_claim(&self, claim_ref: &ClaimRef) -> Option<&Claim> {
        self.claim.filter(|claim| claim.uid == claim_ref.uid)
    }

    fn knows_namespace(&self) -> bool {
        self.namespace != NamespaceWindow::Unknown
    }

    fn released(&self, claim_ref: &ClaimRef, record: &TrashRecord) -> Decision {
        if !self.volume.retains() {
            return Decision::Leave(LeaveReason::Purging);
        }
        let valid = claim_ref.uid == record.claim.uid;
        let Some(until) = record.ends().filter(|_| valid) else {
            return Decision::MoveToTrash(TrashRecord {
                window_seconds: self.recorded_window(record, claim_ref).as_secs(),
                claim: moved(record, claim_ref),
                deleted_at: None,
                reserved_at: None,
                reserved_for: None,
                returned_at: None,
                unbindable: Vec::new(),
                ..record.clone()
            });
        };
        if let Some(requesting_claim) = self.requesting_claim {
            return Decision::Restore(requesting_claim.clone());
        }
        if record.policy == OriginalPolicy::Retain {
            return Decision::Leave(LeaveReason::Kept);
        }
        let purge = self
            .volume
            .trash
            .as_deref()
            .and_then(|trash| trash.purge.as_deref());
        Decision::Keep {
            until,
            requested: purge.is_some_and(|uid| claim_ref.uid == uid),
        }
    }

    /// Decides about a volume that is reserved by name for a claim that restores its data.
    fn reserved(&self, record: &TrashRecord) -> Decision {
        let claim = self.claim.filter(|claim| is_for(record, claim));
        if claim.is_some_and(Claim::awaits_volume) {
            Decision::AwaitBinding
        } else {
            Decision::ReturnToTrash
        }
    }
}
