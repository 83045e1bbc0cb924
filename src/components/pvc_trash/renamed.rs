//! Which volumes are being restored as a claim of another name.

use super::recorded::record_if_deleted;
use crate::{
    cluster::{Change, ReferrerIndex},
    objects::{ObjectName, Volume},
};
use parking_lot::Mutex;

/// An index of the volumes whose `claimRef` has another name than the deleted claim in their
/// record, by the name of the deleted claim. Those of the same name are found by their `claimRef`.
#[derive(Default)]
pub struct Renamed(Mutex<ReferrerIndex>);

impl Renamed {
    /// Updates the index after a change of a volume.
    pub fn update(&self, change: &Change<'_, Volume>) {
        let before = change.old.and_then(|volume| deleted_claim(volume));
        let now = change.new.and_then(|volume| deleted_claim(volume));
        if before != now {
            self.0.lock().replace(before.as_ref(), now, change.name);
        }
    }

    /// Returns the volumes of the deleted claims of this name that are being restored as a claim of
    /// another name.
    pub fn volumes_of(&self, deleted: &ObjectName) -> Vec<ObjectName> {
        self.0.lock().of(deleted).cloned().collect()
    }
}

/// The deleted claim of the volume, if the volume's `claimRef` has another name.
fn deleted_claim(volume: &Volume) -> Option<ObjectName> {
    let deleted = &record_if_deleted(volume)?.claim;
    let deleted = ObjectName::new(&*deleted.namespace, &*deleted.name);
    let claim = volume.claim_ref.as_ref()?;
    (claim.name != deleted).then_some(deleted)
}
