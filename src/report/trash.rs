//! What Volume Warden recorded on volumes so that their claims can be restored: both claims that
//! are deleted, and claims that exist and can be restored if they are deleted.

use super::Subject;
use crate::{
    columns::span,
    hashing::HashMap,
    objects::{
        Namespace, Volume,
        trash::{ANOTHER_NAMESPACE, OriginalPolicy, TrashRecord},
        volume::{Phase, VolumeWire},
    },
};

/// The records by the name of the volume.
pub(super) struct Records<'a>(HashMap<&'a str, Record>);

/// The record of a volume that pvc-trash keeps, or will keep, after the deletion of its claim.
pub(super) struct Record {
    record: TrashRecord,
    /// Whether a user requested that the data is deleted now.
    is_purge_requested: bool,
    /// Whether the volume is Bound and not being deleted.
    is_in_use: bool,
    /// Whether the recorded namespace still exists and has not opted out: for other namespaces,
    /// Volume Warden does not restore claims that users request.
    is_handled: bool,
    /// Whether claims can be created in a namespace of the recorded name: it exists and is not
    /// being deleted. Also if namespaces could not be read.
    accepts_claims: bool,
}

impl<'a> Records<'a> {
    /// Reads the records of all volumes whose `persistentVolumeReclaimPolicy` is Retain now. A
    /// record for a claim that the volume's `claimRef` no longer names is left out.
    pub(super) fn new(subject: &Subject<'a>) -> Self {
        let volumes = subject.listed.volumes.iter();
        let records = volumes.filter_map(|volume| {
            let name = volume.metadata.name.as_deref()?;
            Some((name, read(volume, &subject.listed.namespaces)?))
        });
        Self(records.collect())
    }

    /// Finds a record by the name of its volume; none if the claim of the volume cannot be restored
    /// after its deletion.
    pub(super) fn get(&self, volume: &str) -> Option<&Record> {
        self.0.get(volume)
    }
}

fn read(volume: &VolumeWire, namespaces: &HashMap<String, Namespace>) -> Option<Record> {
    let volume = Volume::from(volume.clone());
    let retains = volume.retains();
    let is_in_use = volume.phase == Phase::Bound && !volume.deleting;
    let (trash, claim) = (volume.trash?, volume.claim_ref?);
    let (record, purge) = (trash.record?, trash.purge);
    let namespace = namespaces.get(&record.claim.namespace);
    let is_handled = namespace
        .filter(|namespace| !namespace.excluded && !namespace.deleting)
        .is_some_and(|namespace| record.is_of(Some(&namespace.uid)));
    (retains && claim.uid == record.claim.uid).then(|| Record {
        is_handled,
        accepts_claims: namespace.map_or(namespaces.is_empty(), |namespace| !namespace.deleting),
        is_purge_requested: purge.is_some_and(|uid| claim.uid == uid),
        is_in_use,
        record,
    })
}

impl Record {
    /// Returns whether every user of the namespace can undo the deletion of the claim, if it is
    /// deleted now: its volume stays, its data is kept for a time, and users may restore it.
    pub(super) fn can_be_undone(&self) -> bool {
        let is_destroyed = self.record.window_seconds == 0 || self.is_purge_requested;
        let is_kept = self.record.policy == OriginalPolicy::Retain || !is_destroyed;
        is_kept && self.is_in_use && self.is_for_users()
    }

    /// Returns whether users of the namespace may restore the claim: the namespace has the recorded
    /// uid, has not opted out and is not being deleted, and not too many claims could not be bound
    /// to the volume. Otherwise only an administrator can. False if the namespace could not be
    /// read: the command of the administrator works in any case.
    pub(super) fn is_for_users(&self) -> bool {
        self.is_handled && self.record.is_restorable()
    }

    /// Returns where an administrator restores the claim of this namespace: there, or a placeholder
    /// for another one; none if users of the namespace can restore the claim there.
    pub(super) fn destination<'n>(&self, namespace: &'n str) -> Option<&'n str> {
        if self.is_for_users() {
            None
        } else if self.accepts_claims {
            Some(namespace)
        } else {
            Some(ANOTHER_NAMESPACE)
        }
    }

    /// Describes for how long the deletion of the claim can be undone, if it is deleted now.
    pub(super) fn window(&self) -> String {
        match self.record.policy {
            OriginalPolicy::Delete => format!("for {}", span(self.record.window_seconds)),
            OriginalPolicy::Retain => "without a time limit".to_owned(),
        }
    }

    /// Describes when the data of the deleted claim is deleted.
    pub(super) fn end(&self) -> String {
        match (self.record.policy, self.record.ends()) {
            (OriginalPolicy::Retain, _) => "never".to_owned(),
            (OriginalPolicy::Delete, _) if self.is_purge_requested => "requested".to_owned(),
            (OriginalPolicy::Delete, Some(end)) => end.to_string(),
            (OriginalPolicy::Delete, None) => "unknown".to_owned(),
        }
    }
}
