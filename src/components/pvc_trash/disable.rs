//! Disables the trash for Bound volumes whose StorageClass requests the undelete window `off`.

use super::{
    patch,
    reasons::{TRASH_DISABLED, TRASH_ENABLED},
    reconcile::PvcTrashReconciler,
    recorded::{action, recorded},
};
use crate::{
    cluster::{Basis, Lane, Proof, ReconcileError, Reconciled, Requeue, Target},
    objects::{
        ObjectName, Volume,
        trash::TrashRecord,
        volume::{ClaimRef, Phase},
    },
};
use std::sync::Arc;

impl PvcTrashReconciler {
    /// Restores the original reclaim policy of the volume, and removes its record and its copy, if
    /// a live read shows that its claim exists, is not being deleted and is not announced to
    /// expire.
    ///
    /// pvc-expiry deletes only claims with an announcement, tests the `resourceVersion` that it
    /// read, and reads the StorageClass after the claim. So a deletion that rests on an earlier
    /// version of the StorageClass conflicts with the removal of the announcement, and after the
    /// removal pvc-expiry sees that the trash is disabled.
    pub(super) async fn disable(&self, name: &ObjectName, volume: &Arc<Volume>) -> Reconciled {
        let Some((record, claim)) = recorded(volume).zip(volume.claimed_by()) else {
            return Ok(Requeue::OnEvent);
        };
        let decide = async || {
            let proof = self.keeps_its_claim(claim).await?;
            let operations = patch::disable(volume, record);
            let basis = Basis::Proof(proof);
            Ok::<_, ReconcileError>(action("DisableTrash", Lane::Bulk, operations, basis))
        };
        let target = Target::of(name, volume);
        let checked = decide().await?;
        self.copies
            .delete_copy(&target, &checked, TRASH_DISABLED)
            .await?;
        // The deletion of the copy may have waited for other writes. A claim that a user deleted
        // meanwhile keeps its record, as the warning to the user says.
        let action = decide().await?;
        let applied = self.write(name, volume, action, TRASH_DISABLED).await;
        if applied.may_be_written() {
            self.record_again(name, volume, record, claim).await?;
        }
        applied.into_reconciled()
    }

    /// Writes the record again if the claim was deleted between the last read and the write: the
    /// volume is Bound until kube-controller-manager has seen the deletion, so its data still
    /// exists. A deletion that the API server stores only after this read is not seen.
    async fn record_again(
        &self,
        name: &ObjectName,
        before: &Volume,
        record: &TrashRecord,
        claim: &ClaimRef,
    ) -> Result<(), ReconcileError> {
        if self.keeps_its_claim(claim).await.is_ok() {
            return Ok(());
        }
        let volume = self.live.volume(name).await?;
        let volume = volume.filter(|volume| {
            let is_bound = volume.phase == Phase::Bound && volume.claimed_by() == Some(claim);
            is_bound && volume.uid == before.uid && volume.trash.is_none() && !volume.deleting
        });
        let Some(volume) = volume else {
            return Ok(());
        };
        let operations = patch::record(&volume, record);
        let action = action("EnableTrash", Lane::Safety, operations, Basis::Object);
        let volume = Arc::new(volume);
        let applied = self.write(name, &volume, action, TRASH_ENABLED).await;
        applied.into_reconciled().map(drop)
    }

    /// Proves that the claim exists, is not being deleted and is not announced to expire.
    async fn keeps_its_claim(&self, claim: &ClaimRef) -> Result<Proof, ReconcileError> {
        let (live, proof) = self.live.claim(&claim.name).await?;
        let live = live.filter(|live| live.uid == claim.uid && !live.deleting);
        match live {
            None => Err(ReconcileError::new(
                "the claim is being deleted, or does not exist",
            )),
            Some(live) if live.rare.is_announced() => Err(ReconcileError::new(
                "the claim is announced to expire, so the trash stays enabled",
            )),
            Some(_) => Ok(proof),
        }
    }
}
