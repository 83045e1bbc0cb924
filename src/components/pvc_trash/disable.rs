//! Disables the trash for Bound volumes whose StorageClass requests the undelete window `off`.

use super::{
    patch,
    reasons::TRASH_DISABLED,
    reconcile::PvcTrashReconciler,
    recorded::{action, recorded},
};
use crate::{
    cluster::{Basis, Lane, ReconcileError, Reconciled, Requeue, Target},
    objects::{ObjectName, Volume},
};
use std::sync::Arc;

impl PvcTrashReconciler {
    /// Restores the original reclaim policy of the volume, and removes its record and its copy, if
    /// a live read shows that its claim exists, is not being deleted and is not announced to expire.
    ///
    /// pvc-expiry deletes only claims with an announcement, tests the `resourceVersion` that it
    /// read, and reads the StorageClass after the claim. So a deletion that rests on an earlier
    /// version of the StorageClass conflicts with the removal of the announcement, and after the
    /// removal pvc-expiry sees that the trash is disabled.
    pub(super) async fn disable(&self, name: &ObjectName, volume: &Arc<Volume>) -> Reconciled {
        let Some((record, claim)) = recorded(volume).zip(volume.claimed_by()) else {
            return Ok(Requeue::OnEvent);
        };
        let (live, proof) = self.live.claim(&claim.name).await?;
        let live = live.filter(|live| live.uid == claim.uid && !live.deleting);
        let Some(live) = live else {
            return Err(ReconcileError::new(
                "the claim is being deleted, or does not exist",
            ));
        };
        if live.rare.is_announced() {
            let why = "the claim is announced to expire, so the trash stays enabled";
            return Err(ReconcileError::new(why));
        }
        let operations = patch::disable(volume, record);
        let action = action("DisableTrash", Lane::Bulk, operations, Basis::Proof(proof));
        let target = Target::of(name, volume);
        self.copies.forget(&target, &action, TRASH_DISABLED).await?;
        self.write(name, volume, action, TRASH_DISABLED)
            .await
            .settled()
    }
}
