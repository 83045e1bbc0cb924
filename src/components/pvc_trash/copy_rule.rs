//! The rule for the copies of volumes.

use crate::objects::{SavedVolume, Volume, saved_volume::fingerprint, trash::OriginalPolicy};

/// What happens next to the copy of a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Leave the copy unchanged.
    Leave,
    /// Create the copy, or replace its content.
    Save,
    /// Delete the copy: pvc-trash no longer keeps the volume.
    Forget,
}

/// Decides what happens next to the copy of a volume.
///
/// While a volume is reserved, while its record is void or unreadable, and while it is being
/// deleted, the copy stays as it is: it is the last one that can be used.
pub fn decide(volume: &Volume, copy: Option<&SavedVolume>) -> Step {
    if volume.deleting {
        return Step::Leave;
    }
    let ended = match volume.trash.as_deref().map(|trash| &trash.record) {
        None => true,
        Some(Some(record)) => !volume.retain || record.policy == OriginalPolicy::Retain,
        Some(None) => !volume.retain,
    };
    match (fingerprint(volume), copy) {
        (None, Some(_)) if ended => Step::Forget,
        (None, _) => Step::Leave,
        (now, Some(copy)) if copy.fingerprint == now => Step::Leave,
        (Some(_), _) => Step::Save,
    }
}

#[cfg(test)]
#[path = "copy_rule_tests.rs"]
mod tests;
