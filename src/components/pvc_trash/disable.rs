//! Disables the trash for Bound volumes whose StorageClass requests the undelete window `off`.

use super::{
    patch,
    reasons::TRASH_DISABLED,
    reconcile::PvcTrashReconciler,
    target::{action, recorded},
};
use crate::{
    cluster::{Basis, Lane, ReconcileError, Reconciled, Requeue},
    objects::{ObjectName, Volume},
};
use std::sync::Arc;

impl PvcTrashReconciler {
    /// Restores the original reclaim policy of the volume, and removes its record and its copy, if
    /// a live read shows that its claim exists and is not being deleted.
    pub(super) async fn disable(&self, name: &ObjectName, volume: &Arc<Volume>) -> Reconciled {
        let Some((record, claim)) = recorded(volume).zip(volume.claimed_by()) else {
            return Ok(Requeue::OnEvent);
        };
        let (live, proof) = self.live.claim(&claim.name).await?;
        if !live.is_some_and(|live| live.uid == claim.uid && !live.deleting) {
            return Err(ReconcileError::new(
                "the claim is being deleted, or does not exist",
            ));
        }
        self.copies.forget(volume).await?;
        let operations = patch::disable(volume, record);
        let action = action("DisableTrash", Lane::Bulk, operations, Basis::Proof(proof));
        self.write(name, volume, action, TRASH_DISABLED)
            .await
            .settled()
    }
}
