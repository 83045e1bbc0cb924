//! Reports by Events that a claim is announced to expire, or that it or the claims of a
//! StorageClass cannot expire although an annotation requests it.

use super::{
    notices,
    reconcile::PvcExpiryReconciler,
    restorable::{grants_window, record},
    rule::LeaveReason,
};
use crate::{
    cluster::{EventContent, ReconcileError, Regarding},
    hashing::HashSet,
    objects::{Claim, ObjectName, StorageClass, expiry},
};
use k8s_openapi::jiff::Timestamp;
use tokio::time::Instant;

impl PvcExpiryReconciler {
    /// Publishes an Event if the claim does not expire because its annotation is invalid or its
    /// data could not be restored: once, for as long as the cause holds. Other causes have no
    /// Event.
    pub(super) fn report(
        &self,
        name: &ObjectName,
        claim: &Claim,
        leave_reason: Option<LeaveReason>,
    ) {
        let leave_reason = leave_reason.filter(|leave_reason| {
            matches!(
                leave_reason,
                LeaveReason::NoWindow(_) | LeaveReason::Unreadable
            )
        });
        let causes = leave_reason.into_iter().collect();
        if self
            .reported
            .new_causes(name, &claim.uid, causes)
            .is_empty()
        {
            return;
        }
        if let Some(leave_reason) = leave_reason
            && let Some(event) = of_claim(name, claim, leave_reason)
        {
            let postpone = self.reported.postponing(name, &leave_reason);
            self.apply
                .publish_event_or(Regarding::of(name, claim), event, postpone);
        }
    }

    /// Publishes an Event about the announced time of the claim: once, also if an earlier leader
    /// wrote the announcement. An Event that could not be published is published at a later
    /// reconcile.
    pub(super) fn report_announced(&self, name: &ObjectName, claim: &Claim, at: Option<Timestamp>) {
        let times = at.into_iter().collect();
        let new_causes = self.announced.new_causes(name, &claim.uid, times);
        let Some(at) = at.filter(|at| new_causes.contains(at)) else {
            return;
        };
        let volume = self.caches.volume_of(claim);
        let record = volume
            .as_ref()
            .and_then(|volume| record(volume, claim).ok());
        let event = notices::expiring(name, at, record);
        let postpone = self.announced.postponing(name, &at);
        self.apply
            .publish_event_once(Regarding::of(name, claim), event, postpone);
    }

    /// Returns what names the claim; see [`Referrers::of`](super::referrers::Referrers::of).
    ///
    /// # Errors
    /// When that could not be read. An Event says so, once for as long as it fails.
    pub(super) async fn named_by(
        &self,
        name: &ObjectName,
        claim: &Claim,
        since: Instant,
    ) -> Result<Vec<String>, ReconcileError> {
        let read = self.live.referrers.of(name, since).await;
        let causes = read.is_err().then_some(()).into_iter().collect();
        if !self.unread.new_causes(name, &claim.uid, causes).is_empty() {
            let (event, postpone) = (notices::unread(name), self.unread.postponing(name, &()));
            self.apply
                .publish_event_once(Regarding::of(name, claim), event, postpone);
        }
        read
    }

    /// Publishes an Event if the claims of the StorageClass cannot expire as its annotation
    /// requests: once, for as long as the cause holds.
    pub(super) fn report_class(&self, name: &ObjectName, class: &StorageClass) {
        let event = of_class(&name.name, class);
        let causes: HashSet<_> = event.iter().map(|event| event.note.clone()).collect();
        if self.classes.new_causes(name, &class.uid, causes).is_empty() {
            return;
        }
        if let Some(event) = event {
            let postpone = self.classes.postponing(name, &event.note);
            self.apply
                .publish_event_or(Regarding::of(name, class), event, postpone);
        }
    }
}

fn of_claim(name: &ObjectName, claim: &Claim, leave_reason: LeaveReason) -> Option<EventContent> {
    if let LeaveReason::NoWindow(obstacle) = leave_reason {
        return Some(notices::no_window(name, obstacle));
    }
    // An unreadable annotation of the StorageClass is reported on the StorageClass.
    let text = claim.rare.expiry.as_ref()?.age.as_deref()?;
    let error = expiry::parse(text).err()?;
    Some(notices::unreadable_of_claim(name, &error))
}

/// The Event that claims of the StorageClass cannot expire as its annotation requests; none if they
/// can.
pub(super) fn of_class(name: &str, class: &StorageClass) -> Option<EventContent> {
    match expiry::parse(class.expire_unused.as_deref()?) {
        Err(error) => Some(notices::unreadable_of_class(name, &error)),
        Ok(None) => None,
        Ok(Some(_)) => (!grants_window(class)).then(|| notices::class_without_window(name)),
    }
}
