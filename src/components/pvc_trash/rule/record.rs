//! The record that the rule writes on a volume, and the undelete window in it.

use super::View;
use crate::objects::{
    Claim, Volume,
    finalizers::PV_PROTECTION,
    trash::{OriginalPolicy, RecordedClaim, TrashRecord},
    undelete_window::{Window, claim_window},
    volume::ClaimRef,
    volume::ReclaimPolicy,
};
use std::{collections::BTreeMap, time::Duration};

/// Finalizers that do not belong to the provisioner of a volume, by their beginning. All others
/// are recorded, and a purge adds them to the volume again.
const OTHER_FINALIZERS: [&str; 2] = [PV_PROTECTION, "external-attacher/"];

impl View<'_> {
    /// The window in a class with the window `class`: the namespace can lengthen it, and then the
    /// claim can shorten it.
    pub(super) fn window(&self, class: Duration, claim: Option<&Claim>) -> Duration {
        let own = claim.and_then(|claim| claim.rare.trash.as_deref());
        let others = self.namespace.lengthen(class, self.longest);
        claim_window(others, own.and_then(|own| own.window.as_deref()))
    }

    /// The recorded window. If the record is that of an earlier claim of the volume: the recorded
    /// window or that of the present claim, whichever is longer.
    pub(super) fn recorded_window(&self, record: &TrashRecord, claim_ref: &ClaimRef) -> Duration {
        let recorded = Duration::from_secs(record.window_seconds);
        match self.class {
            Some(Window::For(class)) if claim_ref.uid != record.claim.uid => {
                recorded.max(self.window(class, self.existing_claim(claim_ref)))
            }
            _ => recorded,
        }
    }

    /// The record to write on the volume; none if the trash is not to be enabled for it.
    pub(super) fn record(
        &self,
        claim: &ClaimRef,
        window: Duration,
        before: Option<&TrashRecord>,
    ) -> Option<TrashRecord> {
        let volume = self.volume;
        let (policy, finalizers) = match (before, volume.reclaim_policy) {
            // The volume had the policy Retain at first, and an administrator has set Delete
            // since: the data is to be deleted with the claim.
            (Some(before), ReclaimPolicy::Delete) if before.policy == OriginalPolicy::Retain => {
                return None;
            }
            (Some(before), _) => (before.policy, before.finalizers.clone()),
            (None, _) if window.is_zero() => return None,
            (None, ReclaimPolicy::Delete) => {
                (OriginalPolicy::Delete, provisioner_finalizers(volume))
            }
            (None, ReclaimPolicy::Retain) => (OriginalPolicy::Retain, Vec::new()),
            (None, ReclaimPolicy::Other) => return None,
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
}

/// Builds the record of a volume at its creation. None if the volume is not bound to a claim, its
/// policy is not Delete, no window is set or it is 0, the namespace of the claim has opted out, or
/// its trash is full.
pub fn record_at_creation(view: &View<'_>) -> Option<TrashRecord> {
    let Some(Window::For(window)) = view.class else {
        return None;
    };
    let claim_ref = view.volume.claimed_by()?;
    let window = view.window(window, view.existing_claim(claim_ref));
    let deletes = view.volume.reclaim_policy == ReclaimPolicy::Delete;
    view.record(claim_ref, window, None)
        .filter(|_| deletes && !view.excluded && !view.full)
}

/// Returns whether the record on the volume needs no change. A record without the uid of the
/// namespace is written again, so that a live read adds the uid.
pub(super) fn is_current(record: &TrashRecord, desired: &TrashRecord) -> bool {
    let same = TrashRecord {
        claim: record.claim.clone(),
        ..desired.clone()
    };
    record.claim.namespace_uid.is_some() && *record == same
}

/// Returns the record's entry for the deleted claim. A record of an earlier claim is void, but the
/// uid of its namespace is kept if the namespace has the same name: the caller checks whether that
/// namespace still exists.
pub(super) fn moved(record: &TrashRecord, claim: &ClaimRef) -> RecordedClaim {
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
