//! Waits until the claim that a volume is reserved for is Bound.

use super::VolumeRestorer;
use crate::{
    cluster::{Basis, Lane, ReconcileError, Reconciled, Requeue, Target},
    components::pvc_trash::{
        NAME, patch,
        reasons::BINDING_RETRIED,
        recorded::{action, recorded},
    },
    objects::{ObjectName, Volume},
};
use k8s_openapi::jiff::Timestamp;
use std::{sync::Arc, time::Duration};
use tokio::time::Instant;

/// How long a volume stays reserved for a claim that is not Bound.
const RESERVATION_TIMEOUT: Duration = Duration::from_secs(300);
/// Delay before Volume Warden first changes an annotation of a claim that is not Bound, to trigger
/// another sync by the volume binder. The binder needs less time if nothing conflicts.
const FIRST_TOUCH: Duration = Duration::from_millis(300);
/// Delay of the second change of the annotation. Each later delay is twice the one before.
pub(super) const NEXT_TOUCH: Duration = Duration::from_secs(1);
/// Maximum delay between two changes of the annotation: the binder resyncs each claim every 15 s.
const SLOWEST_TOUCH: Duration = Duration::from_secs(15);

/// A volume that is reserved for a claim that is not Bound.
pub(in crate::components::pvc_trash) struct Waiting {
    /// The time of the reservation, which identifies it.
    reserved_at: Timestamp,
    /// When the reservation ends.
    ends: Instant,
    /// When Volume Warden next changes the annotation of the claim.
    touch: Instant,
    /// The delay from that change to the one after it. Each change doubles it, up to
    /// [`SLOWEST_TOUCH`].
    delay: Duration,
}

impl VolumeRestorer {
    /// Changes an annotation of the claim from time to time until the claim is Bound, and returns
    /// the volume to the trash after five minutes. Two workers of the binder may write the same
    /// object; the one that loses tries again when the claim changes, or after 15 s.
    pub async fn await_binding(&self, name: &ObjectName, volume: &Arc<Volume>) -> Reconciled {
        let Some((record, claim_ref)) = recorded(volume).zip(volume.claim_ref.as_ref()) else {
            return Ok(Requeue::OnEvent);
        };
        let Some(reserved_at) = record.reserved_at else {
            return Ok(Requeue::OnEvent);
        };
        if self.has_ended(name, reserved_at).await? {
            return self.return_to_trash(name, volume).await;
        }
        let why = || format!("waiting until the claim {} is Bound", claim_ref.name);
        if let Err(wait) = self.next_touch(name) {
            return Ok(Requeue::After(wait, why()));
        }
        let claim = self.caches.claims.read().get_fresh(&claim_ref.name);
        if let Some(claim) = claim {
            let target = Target::of(&claim_ref.name, &claim);
            let operations = patch::touch(&claim, self.clock.timestamp());
            let action = action("TouchClaim", Lane::Release, operations, Basis::Object);
            // The outcome does not matter: after a conflict another client has changed the claim,
            // so the binder syncs it, too.
            self.apply
                .perform(NAME, &target, action, BINDING_RETRIED)
                .await;
        }
        Ok(Requeue::After(NEXT_TOUCH, why()))
    }

    /// Forgets the time at which the reservation of the volume ends, because no claim waits for it
    /// any more.
    pub fn forget(&self, volume: &ObjectName) {
        self.waiting.lock().remove(volume);
    }

    /// Returns whether the reservation of the volume has ended.
    ///
    /// # Errors
    /// When the time of the API server, which is read once for each reservation, could not be read.
    pub(super) async fn has_ended(
        &self,
        name: &ObjectName,
        reserved_at: Timestamp,
    ) -> Result<bool, ReconcileError> {
        let ends = match self.end_of(name, reserved_at) {
            Some(ends) => ends,
            None => self.begin_waiting(name, reserved_at).await?,
        };
        Ok(ends <= Instant::now())
    }

    fn end_of(&self, volume: &ObjectName, reserved_at: Timestamp) -> Option<Instant> {
        let waiting = self.waiting.lock();
        let known = waiting.get(volume)?;
        (known.reserved_at == reserved_at).then_some(known.ends)
    }

    /// Reads how long the volume has been reserved, by the clock of the API server, which also gave
    /// the time of the reservation, and records and returns when the reservation ends.
    ///
    /// # Errors
    /// When the time could not be read.
    async fn begin_waiting(
        &self,
        volume: &ObjectName,
        reserved_at: Timestamp,
    ) -> Result<Instant, ReconcileError> {
        let age = self.live.now().await?.duration_since(reserved_at);
        let age = Duration::try_from(age).unwrap_or_default();
        let now = Instant::now();
        let ends = now + RESERVATION_TIMEOUT.saturating_sub(age);
        let waiting = Waiting {
            reserved_at,
            ends,
            touch: now + FIRST_TOUCH,
            delay: NEXT_TOUCH,
        };
        self.waiting.lock().insert(volume.clone(), waiting);
        Ok(ends)
    }

    /// Succeeds if the annotation of the volume's claim is to be changed now, and sets the time of
    /// the next change.
    ///
    /// # Errors
    /// How long to wait.
    fn next_touch(&self, volume: &ObjectName) -> Result<(), Duration> {
        let now = Instant::now();
        let mut waiting = self.waiting.lock();
        let Some(reservation) = waiting.get_mut(volume) else {
            return Err(NEXT_TOUCH);
        };
        if reservation.touch > now {
            return Err(reservation.touch - now);
        }
        reservation.touch = now + reservation.delay;
        reservation.delay = SLOWEST_TOUCH.min(reservation.delay * 2);
        Ok(())
    }
}
