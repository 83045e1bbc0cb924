//! The volumes in the trash, as users see them: a pure function of one volume.

use super::{
    ObjectName, Volume,
    trash::{OriginalPolicy, TrashRecord},
    volume::Phase,
};
use k8s_openapi::jiff::Timestamp;

/// A volume whose claim was deleted, and whose record holds for that claim. It is Released, or
/// Failed if it was purged and the provisioner could not delete it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Entry<'a> {
    /// The name of the volume, by which users select it.
    pub name: &'a ObjectName,
    /// The volume, which is Released, or Failed after a purge.
    pub volume: &'a Volume,
    /// The record of pvc-trash on the volume, which names the deleted claim.
    pub record: &'a TrashRecord,
    /// What happens next to the volume.
    pub next: Next,
}

/// What happens next to a volume in the trash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// The data can be restored until this time, and is deleted after it; none while the time of
    /// the deletion is not recorded yet.
    Until(Option<Timestamp>),
    /// A user requested that the data is deleted now.
    Requested,
    /// The data can be restored, and Volume Warden never deletes it.
    Kept,
    /// The volume and its data are being deleted, and cannot be restored.
    Purging,
}

impl<'a> Entry<'a> {
    /// Returns the volume as an entry of the trash; none if the volume is not in the trash.
    pub fn of(name: &'a ObjectName, volume: &'a Volume) -> Option<Self> {
        let trash = volume.trash.as_deref()?;
        let (record, claim) = trash.record.as_ref().zip(volume.claimed_by())?;
        let requested = trash.purge.as_deref().is_some_and(|uid| claim.uid == uid);
        let next = match record.policy {
            _ if volume.deleting || !volume.retains() => Next::Purging,
            OriginalPolicy::Retain => Next::Kept,
            OriginalPolicy::Delete if requested => Next::Requested,
            OriginalPolicy::Delete => Next::Until(record.ends()),
        };
        let deleted = match volume.phase {
            Phase::Released => true,
            Phase::Failed => next == Next::Purging,
            Phase::Bound | Phase::Other => false,
        };
        let valid = deleted && claim.uid == record.claim.uid;
        valid.then_some(Self {
            name,
            volume,
            record,
            next,
        })
    }

    /// Returns the capacity of the volume, as a Kubernetes quantity.
    pub fn capacity(&self) -> &'a str {
        let trash = self.volume.trash.as_deref();
        trash.map_or("", |trash| &trash.capacity)
    }

    /// Returns the namespace and name of the deleted claim.
    pub fn claim(&self) -> String {
        format!("{}/{}", self.record.claim.namespace, self.record.claim.name)
    }
}
