//! Ends reservations of volumes.

use super::{
    notices,
    parked::{Caller, Reservations, unread},
    reservation::{Reservation, Verdict, decide_reservation},
};
use crate::{
    cluster::{DEFAULT_CALL_TIMEOUT, ReconcileError, Reconciled, Regarding, Requeue, server_time},
    objects::{ObjectName, Volume},
};
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use std::sync::Arc;

impl Reservations {
    /// Parks a reserved volume again, so that another claim can get it, if [`decide_reservation`]
    /// says so.
    ///
    /// # Errors
    /// When an object could not be read, or the write failed.
    pub async fn check(&self, name: &ObjectName, volume: &Arc<Volume>) -> Reconciled {
        let (Some(claim), Some(record)) = (volume.reserved_for(), volume.record()) else {
            return Ok(Requeue::OnEvent);
        };
        let watched = self.caches.watches_namespace(&record.namespace);
        if !watched || self.caches.is_never_changed(volume) {
            return Ok(Requeue::OnEvent);
        }
        // With --namespace, no watch shows the end of a namespace that is being deleted.
        let namespace = self.identity.active_namespace(&record.namespace).await;
        let live = self
            .identity
            .claims
            .get(&claim.name, DEFAULT_CALL_TIMEOUT)
            .await;
        let (namespace, live) = (namespace.map_err(unread)?.value, live.map_err(unread)?);
        let age = match volume.reserved_at() {
            Some(reserved_at) => Some(self.age(reserved_at).await?),
            None => None,
        };
        let verdict = decide_reservation(&Reservation {
            name,
            volume,
            record,
            namespace: namespace.as_deref(),
            age,
            claim: live.as_ref(),
        });
        match verdict {
            Verdict::Keep => Ok(Requeue::OnEvent),
            Verdict::Later(delay) => Ok(Requeue::After(
                delay,
                format!("waiting until the claim {} is stored", claim.name),
            )),
            Verdict::Park => {
                let parked = self.park(name, volume, Caller::Reconciler).await;
                let same = namespace.as_deref() == Some(&*record.namespace_uid);
                if parked.written() && age.is_none() && !same {
                    let event = notices::parked(volume, record);
                    self.apply.publish_event(Regarding::of(name, volume), event);
                }
                parked.into_reconciled()
            }
        }
    }

    /// Returns how long ago this time was. A text that is no time counts as very long ago.
    async fn age(&self, reserved_at: &str) -> Result<SignedDuration, ReconcileError> {
        let now = server_time(&self.client, DEFAULT_CALL_TIMEOUT)
            .await
            .map_err(ReconcileError::unread("the time of the API server"))?;
        Ok(now.duration_since(reserved_at.parse::<Timestamp>().unwrap_or_default()))
    }
}
