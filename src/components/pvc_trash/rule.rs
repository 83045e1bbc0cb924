//! The rule of pvc-trash: what happens next to a volume.

use crate::objects::{
    Claim, ObjectName, Volume,
    finalizers::PV_PROTECTION,
    trash::{OriginalPolicy, RecordedClaim, TrashRecord},
    undelete_window::{NamespaceWindow, Window, window_of_claim},
    volume::{ClaimRef, Phase},
};
use k8s_openapi::jiff::Timestamp;
use std::{collections::BTreeMap, time::Duration};
use strum::IntoStaticStr;

/// Finalizers that do not belong to the provisioner of a volume, by their beginning. All others
/// are recorded, and a purge adds them to the volume again.
const OTHER_FINALIZERS: [&str; 2] = [PV_PROTECTION, "external-attacher/"];

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
    pub restorer: Option<&'a ObjectName>,
}

/// Decision about a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Leave the volume unchanged, for this reason.
    Leave(Left),
    /// Set the policy Retain and write this record. Live reads add the uid of the namespace, and
    /// the labels and annotations of the claim.
    Record(TrashRecord),
    /// Give the volume its original policy back and remove the record, if a live read shows that
    /// the claim is not being deleted.
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
    Return,
}

/// Why a volume is left unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, IntoStaticStr)]
pub enum Left {
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
    /// The record of the volume cannot be read.
    Unreadable,
    /// The class disables the trash, but the claim is being deleted or does not exist any more, so
    /// the volume keeps the policy Retain and its record.
    Terminating,
}

impl Left {
    /// The name of the reason in logs and metrics.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// Decides what happens next to the volume.
pub fn decide(view: &View<'_>) -> Decision {
    let (volume, trash) = (view.volume, view.volume.trash.as_deref());
    let record = match trash.map(|trash| trash.record.as_ref()) {
        Some(None) => return Decision::Leave(Left::Unreadable),
        Some(record) => record,
        None => None,
    };
    match (volume.phase, volume.claimed_by(), record) {
        _ if volume.deleting => Decision::Leave(Left::Deleting),
        (Phase::Bound, Some(claim), record) => view.bound(claim, record),
        (Phase::Released, Some(claim), Some(record)) => view.released(claim, record),
        (Phase::Failed, Some(_), Some(_)) if !volume.retain => Decision::Leave(Left::Purging),
        (Phase::Other, None, Some(record)) if record.reserved_at.is_some() => view.reserved(record),
        _ => Decision::Leave(Left::NotEnabled),
    }
}

impl View<'_> {
    fn bound(&self, claim_ref: &ClaimRef, record: Option<&TrashRecord>) -> Decision {
        let living = self.living(claim_ref);
        let window = match (self.class, record) {
            (Some(Window::Off), None) | (None, None) => {
                return Decision::Leave(Left::NotEnabled);
            }
            (Some(Window::Off), Some(_)) => {
                let stays = living.is_some_and(|claim| !claim.deleting);
                return if stays {
                    Decision::Disable
                } else {
                    Decision::Leave(Left::Terminating)
                };
            }
            (Some(Window::For(_)), None) if self.excluded => {
                return Decision::Leave(Left::NotEnabled);
            }
            (Some(Window::For(window)), None) => match living {
                Some(living) => self.window(window, Some(living)),
                // The watch does not have the claim, so its annotations are not known. Either it is
                // deleted, or a later event delivers it.
                None => return Decision::Leave(Left::NotEnabled),
            },
            (Some(Window::For(window)), Some(_))
                if living.is_some() && !window.is_zero() && self.knows_namespace() =>
            {
                self.window(window, living)
            }
            // A recorded window stays if the class has no annotation or the window 0, or if the
            // claim or the window of the namespace is not known.
            (_, Some(record)) => self.recorded_window(record, claim_ref),
        };
        let Some(desired) = self.record(claim_ref, window, record) else {
            return Decision::Leave(Left::NotEnabled);
        };
        // A full trash still keeps volumes that have a record. A volume that had the policy Retain
        // gets a record, too, because it does not count towards the limit.
        if self.full && record.is_none() && desired.policy == OriginalPolicy::Delete {
            return Decision::Leave(Left::Full);
        }
        let recorded =
            record.filter(|record| self.volume.retain && record.claim.uid == desired.claim.uid);
        match recorded {
            Some(record) if is_current(record, &desired) => Decision::Leave(Left::Enabled),
            _ => Decision::Record(desired),
        }
    }

    /// The window in a class with the window `class`: the namespace can lengthen it, and then the
    /// claim can shorten it.
    fn window(&self, class: Duration, claim: Option<&Claim>) -> Duration {
        let own = claim.and_then(|claim| claim.rare.trash.as_deref());
        let others = self.namespace.lengthen(class, self.longest);
        window_of_claim(others, own.and_then(|own| own.window.as_deref()))
    }

    /// The recorded window. If the record is that of an earlier claim of the volume: the recorded
    /// window or that of the present claim, whichever is longer.
    fn recorded_window(&self, record: &TrashRecord, claim_ref: &ClaimRef) -> Duration {
        let recorded = Duration::from_secs(record.window_seconds);
        match self.class {
            Some(Window::For(class)) if claim_ref.uid != record.claim.uid => {
                recorded.max(self.window(class, self.living(claim_ref)))
            }
            _ => recorded,
        }
    }

    /// Returns the claim that the volume is bound to, if the watch has it; not another one of the
    /// same name.
    fn living(&self, claim_ref: &ClaimRef) -> Option<&Claim> {
        self.claim.filter(|claim| claim.uid == claim_ref.uid)
    }

    fn knows_namespace(&self) -> bool {
        self.namespace != NamespaceWindow::Unknown
    }

    /// The record to write on the volume; none if the trash is not to be enabled for it.
    fn record(
        &self,
        claim: &ClaimRef,
        window: Duration,
        before: Option<&TrashRecord>,
    ) -> Option<TrashRecord> {
        let volume = self.volume;
        let (policy, finalizers) = match before {
            // The volume had the policy Retain at first, and an administrator has set Delete
            // since: the data is to be deleted with the claim.
            Some(before) if before.policy == OriginalPolicy::Retain && volume.delete => {
                return None;
            }
            Some(before) => (before.policy, before.finalizers.clone()),
            None if window.is_zero() => return None,
            None if volume.delete => (OriginalPolicy::Delete, provisioner_finalizers(volume)),
            None if volume.retain => (OriginalPolicy::Retain, Vec::new()),
            None => return None,
        };
        Some(TrashRecord {
            policy,
            window_seconds: window.as_secs(),
            finalizers,
            claim: recorded(claim),
            deleted_at: None,
            reserved_at: None,
            reserved_for: None,
            returned_at: None,
            unbindable: Vec::new(),
        })
    }

    fn released(&self, claim_ref: &ClaimRef, record: &TrashRecord) -> Decision {
        if !self.volume.retain {
            return Decision::Leave(Left::Purging);
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
        if let Some(restorer) = self.restorer {
            return Decision::Restore(restorer.clone());
        }
        if record.policy == OriginalPolicy::Retain {
            return Decision::Leave(Left::Kept);
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
        let restoring = |claim: &&Claim| {
            record
                .reserved_for
                .as_deref()
                .is_some_and(|uid| claim.uid == uid)
        };
        let claim = self.claim.filter(restoring);
        if claim.is_some_and(|claim| claim.pending && !claim.deleting) {
            Decision::AwaitBinding
        } else {
            Decision::Return
        }
    }
}

/// Builds the record of a volume at its creation. None if the volume is not bound to a claim, its
/// policy is not Delete, no window is set or it is 0, the namespace of the claim has opted out, or
/// its trash is full.
pub fn record_at_creation(view: &View<'_>) -> Option<TrashRecord> {
    let Some(Window::For(window)) = view.class else {
        return None;
    };
    let claim_ref = view.volume.claimed_by()?;
    let window = view.window(window, view.living(claim_ref));
    view.record(claim_ref, window, None)
        .filter(|_| view.volume.delete && !view.excluded && !view.full)
}

/// Returns whether the record on the volume needs no change. A record without the uid of the
/// namespace is written again, so that a live read adds the uid.
fn is_current(record: &TrashRecord, desired: &TrashRecord) -> bool {
    let same = TrashRecord {
        claim: record.claim.clone(),
        ..desired.clone()
    };
    record.claim.namespace_uid.is_some() && *record == same
}

/// Returns the record's entry for the deleted claim. A record of an earlier claim is void, but the
/// uid of its namespace is kept if the namespace has the same name: the caller checks whether that
/// namespace still exists.
fn moved(record: &TrashRecord, claim: &ClaimRef) -> RecordedClaim {
    if claim.uid == record.claim.uid {
        return record.claim.clone();
    }
    let same = *record.claim.namespace == *claim.name.namespace;
    RecordedClaim {
        namespace_uid: record.claim.namespace_uid.clone().filter(|_| same),
        ..recorded(claim)
    }
}

fn recorded(claim: &ClaimRef) -> RecordedClaim {
    RecordedClaim {
        namespace: claim.name.namespace.to_string(),
        name: claim.name.name.to_string(),
        uid: claim.uid.to_string(),
        namespace_uid: None,
        labels: BTreeMap::new(),
        annotations: BTreeMap::new(),
    }
}

fn provisioner_finalizers(volume: &Volume) -> Vec<String> {
    let others = |finalizer: &str| {
        OTHER_FINALIZERS
            .iter()
            .any(|other| finalizer.starts_with(other))
    };
    let finalizers = volume.finalizers.iter().filter(|each| !others(each));
    finalizers.map(|each| each.to_string()).collect()
}
