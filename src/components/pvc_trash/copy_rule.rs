//! The rule for the copies of volumes.

use crate::objects::{SavedVolume, Volume, saved_volume::fingerprint, trash::OriginalPolicy};

/// What happens next to the copy of a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Leave the copy unchanged.
    Leave,
    /// Create the copy, or replace its content.
    Save,
    /// Delete the copy: the volume needs none any more.
    Delete,
}

/// Decides what happens next to the copy of a volume.
///
/// The copy is neither replaced nor deleted while the volume is being deleted. While its policy is
/// Retain, the same holds if the volume is reserved for a claim that restores its data, or if its
/// record is unreadable or holds for another claim. In these states no new copy is made, and if
/// the volume is removed, it can be created again only from the present copy.
pub fn decide(volume: &Volume, copy: Option<&SavedVolume>) -> Step {
    if volume.deleting {
        return Step::Leave;
    }
    let ended = match volume.trash.as_deref().map(|trash| &trash.record) {
        None => true,
        Some(Some(record)) => !volume.retains() || record.policy == OriginalPolicy::Retain,
        Some(None) => !volume.retains(),
    };
    match (fingerprint(volume), copy) {
        (None, Some(_)) if ended => Step::Delete,
        (None, _) => Step::Leave,
        (now, Some(copy)) if copy.fingerprint == now => Step::Leave,
        (Some(_), _) => Step::Save,
    }
}

#[cfg(test)]
#[path = "copy_rule_tests.rs"]
mod tests;
