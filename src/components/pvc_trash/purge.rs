//! Purges volumes whose window has ended, or whose purge a user requested.

use super::{
    confirm::is_skewed,
    notices, patch,
    reasons::PURGED,
    reconcile::{LONGEST_WAIT, PvcTrashReconciler},
    recorded::{action, recorded},
};
use crate::{
    cluster::{Basis, Lane, ReconcileError, Reconciled, Requeue, Target},
    objects::{ObjectName, Volume},
};
use k8s_openapi::jiff::Timestamp;
use std::{sync::Arc, time::Duration};

/// Delay before the clocks are compared again.
const SKEW_RETRY: Duration = Duration::from_secs(300);

impl PvcTrashReconciler {
    /// Purges the volume, within the hourly limit, if its window has ended by the clock of the API
    /// server, or before that if `requested`. Live reads must show that its claim is deleted, that
    /// it is detached, that no claim requests it, and that the volume exists. Otherwise, returns
    /// when to reconcile it again. A volume whose data another volume has, too, is kept.
    pub(super) async fn purge_when_due(
        &self,
        name: &ObjectName,
        volume: &Arc<Volume>,
        until: Timestamp,
        requested: bool,
    ) -> Reconciled {
        let Some((record, claim)) = recorded(volume).zip(volume.claimed_by()) else {
            return Ok(Requeue::OnEvent);
        };
        let local = self.clock.timestamp();
        if !requested && let Some(wait) = remaining(local, until) {
            return Ok(wait);
        }
        // A slot within the hourly limit is reserved first, so that no more volumes are read than
        // can be purged.
        let mut slot = match self.purges.reserve(name, requested) {
            Ok(slot) => slot,
            Err(wait) => return Ok(limited(wait)),
        };
        self.live.claim_is_deleted(claim).await?;
        let ((volume_with_same_data, alone), now, detached) = futures::try_join!(
            self.live.volume_with_same_data(name),
            self.live.now(),
            self.live.is_detached(name),
        )?;
        if let Some(volume_with_same_data) = volume_with_same_data {
            self.report_shared_data(name, volume, &volume_with_same_data);
            let why = format!("the volume {volume_with_same_data} has the same data");
            return Ok(Requeue::After(LONGEST_WAIT, why));
        }
        if is_skewed(now, local) {
            return Err(ReconcileError::on_schedule(
                SKEW_RETRY,
                format!(
                    "the clock of this process says {local} and the clock of the API server says \
                     {now}: no volume is purged while they differ by more than 5 minutes"
                ),
            ));
        }
        if !requested && let Some(wait) = remaining(now, until) {
            return Ok(wait);
        }
        // In a large cluster, the LISTs of volumes and attachments take long: a claim may have
        // requested the volume meanwhile, and the read of its former claim no longer counts.
        let entitled = || self.caches.entitled_uids(name, record);
        let before = entitled();
        self.live.is_unrequested(name, record).await?;
        let proof = self.live.claim_is_deleted(claim).await?;
        let proof = proof.and(alone).and(detached);
        let operations = patch::purge(volume, record);
        let action = action("Purge", Lane::Bulk, operations, Basis::Proof(proof));
        let target = Target::of(name, volume);
        self.copies.delete_copy(&target, &action, PURGED).await?;
        slot.begin();
        // While the purge waits for its turn, the watch may show a new claim that requests the
        // data.
        let still_unrequested = || entitled() == before;
        let purge = (action, PURGED);
        let written = self.write_if(name, volume, purge, &still_unrequested);
        let applied = written.await;
        if !applied.may_be_written() {
            slot.cancel();
        }
        if applied.written() {
            self.publish_event(name, volume, notices::purged(record, requested));
        }
        applied.into_reconciled()
    }
}

fn limited(wait: Duration) -> Requeue {
    let why = "the volume waits, because the limit --trash-max-purges of this hour is reached";
    Requeue::After(wait, why.to_owned())
}

/// When to reconcile the volume again: at the end of its window, or after [`LONGEST_WAIT`] if that
/// is earlier; none if the window has ended.
fn remaining(now: Timestamp, until: Timestamp) -> Option<Requeue> {
    let wait = Duration::try_from(until.duration_since(now)).ok();
    let wait = wait.filter(|wait| !wait.is_zero())?;
    let why = format!("the volume is in the trash until {until}");
    Some(Requeue::After(wait.min(LONGEST_WAIT), why))
}
