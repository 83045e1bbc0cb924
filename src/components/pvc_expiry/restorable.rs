//! Whether the data of a claim could be restored after its deletion.

use crate::objects::{
    Claim, StorageClass, Volume,
    trash::{OriginalPolicy, TrashRecord},
    undelete_window::{Window, claim_window},
    volume::Phase,
};
use std::time::Duration;

/// Why the data of a claim could not be restored after its deletion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Obstacle {
    /// The volume does not exist, is not Bound to the claim, or is being deleted.
    Volume,
    /// The StorageClass of the volume has no readable undelete window above zero.
    ClassWindow,
    /// A purge of the data is requested, so pvc-trash would delete it at once.
    Purge,
    /// The undelete window of the claim is zero.
    ClaimWindow,
    /// pvc-trash has written no record of this claim on the volume, or the record cannot be read.
    Unrecorded,
    /// The reclaim policy of the volume is not Retain.
    Policy,
}

/// Checks that the data of the claim could be restored. The record alone does not show that:
/// pvc-trash removes it, volume by volume, after the StorageClass has disabled the trash.
///
/// # Errors
/// Why the data could not be restored.
pub fn check(
    claim: &Claim,
    volume: Option<&Volume>,
    class: Option<&StorageClass>,
) -> Result<(), Obstacle> {
    let volume = volume.ok_or(Obstacle::Volume)?;
    if !class.is_some_and(grants_window) {
        return Err(Obstacle::ClassWindow);
    }
    record(volume, claim).map(drop)
}

/// Returns whether the StorageClass has an undelete window above zero. Without one, the claims of
/// the StorageClass do not expire.
pub fn grants_window(class: &StorageClass) -> bool {
    let window = class.undelete_window.as_deref().map(Window::of_class);
    matches!(window, Some(Ok(Window::For(window))) if !window.is_zero())
}

/// Returns the record that pvc-trash wrote on the volume, if the data of the claim can be restored
/// by it: the volume is Bound to this claim and not being deleted, its reclaim policy is Retain,
/// the record is of this claim, record and claim grant an undelete window, and there is no request
/// to purge the data of this claim.
///
/// # Errors
/// Why the data could not be restored.
pub fn record<'a>(volume: &'a Volume, claim: &Claim) -> Result<&'a TrashRecord, Obstacle> {
    let bound = volume
        .claimed_by()
        .is_some_and(|bound| bound.uid == claim.uid);
    if !bound || volume.phase != Phase::Bound || volume.deleting {
        return Err(Obstacle::Volume);
    }
    // pvc-trash may not have changed its record yet, and does not while it cannot read the window
    // of the namespace.
    if has_no_window(claim) {
        return Err(Obstacle::ClaimWindow);
    }
    let trash = volume.trash.as_deref();
    let record = trash.and_then(|trash| trash.record.as_ref());
    let record = record.filter(|record| claim.uid == record.claim.uid);
    let record = record.ok_or(Obstacle::Unrecorded)?;
    let purge = trash.and_then(|trash| trash.purge.as_deref());
    if purge.is_some_and(|uid| claim.uid == uid) && record.policy == OriginalPolicy::Delete {
        return Err(Obstacle::Purge);
    }
    if !volume.retains() {
        return Err(Obstacle::Policy);
    }
    match record.window_seconds {
        0 => Err(Obstacle::ClaimWindow),
        _ => Ok(record),
    }
}

/// Returns whether the annotation of the claim is a window of zero, so that its data is not kept.
fn has_no_window(claim: &Claim) -> bool {
    let own = claim.rare.trash.as_deref();
    let own = own.and_then(|own| own.window.as_deref());
    claim_window(Duration::MAX, own).is_zero()
}
