//! Deletes a claim that expires, after two live evaluations.

use super::{
    NAME,
    confirm::Confirmed,
    first_evaluations::EVALUATION_EXPIRES,
    notices,
    reasons::EXPIRED,
    reconcile::PvcExpiryReconciler,
    requeue::{limited, second_evaluation},
    rule::Decision,
};
use crate::{
    cluster::{Action, Applied, ReconcileError, Reconciled, Regarding, Target},
    objects::{Claim, ObjectName},
};
use std::time::Duration;
use tokio::time::Instant;

/// Minimum time between the two live evaluations that precede the deletion of a claim.
const BETWEEN_EVALUATIONS: Duration = Duration::from_secs(60);

impl PvcExpiryReconciler {
    /// Evaluates the claim live once, by reading everything that the rule depends on. If the claim
    /// is due, the first such evaluation requests a second one, and the second one deletes the
    /// claim.
    pub(super) async fn expire(&self, name: &ObjectName, claim: &Claim) -> Reconciled {
        let first = self.first_evaluations.first(name, &claim.uid);
        if let Some(rest) = first.and_then(|first| BETWEEN_EVALUATIONS.checked_sub(first.elapsed()))
            && !rest.is_zero()
        {
            return Ok(second_evaluation(rest));
        }
        // A slot within the hourly limit is reserved first, so that no more claims are read than
        // can be deleted. It is returned after the first evaluation, so claims that wait for
        // their second evaluation count, too.
        if first.is_none() && self.limit.is_reached_by(self.first_evaluations.waiting()) {
            return Ok(limited(BETWEEN_EVALUATIONS));
        }
        let mut slot = match self.limit.reserve() {
            Ok(slot) => slot,
            Err(wait) => return Ok(limited(wait)),
        };
        let (observed, now) = (self.caches.observed(name), self.caches.time.local());
        let read = async {
            // This read may take a minute; the proof that follows is valid for less.
            let named_by = self.named_by(name, claim, Instant::now()).await?;
            let confirmed = self.live.confirm(name, &claim.uid, observed, now).await?;
            Ok::<_, ReconcileError>((named_by, confirmed))
        };
        let read = read
            .await
            .inspect_err(|_| self.first_evaluations.forget(name));
        let (named_by, confirmed) = read?;
        // During these reads a pod may have used the claim and ended.
        if self.caches.observed(name) != observed {
            self.first_evaluations.forget(name);
            let why = "a pod has used the claim meanwhile, or a watch has been interrupted";
            return Err(ReconcileError::new(why));
        }
        if let Some(what) = named_by.first() {
            self.first_evaluations.forget(name);
            self.cancel(name, &confirmed.claim).await?;
            return Ok(self.named.remember(name, &claim.uid, what));
        }
        let Some(record) = confirmed.record.as_ref().filter(|_| confirmed.is_due()) else {
            self.first_evaluations.forget(name);
            let why = "a live read shows that the claim does not expire now";
            return Err(ReconcileError::new(why));
        };
        if first.is_none() {
            self.first_evaluations.record(name, &claim.uid);
            return Ok(second_evaluation(BETWEEN_EVALUATIONS));
        }
        let action = Action::delete(confirmed.proof).of_existing();
        let target = Target::of(name, &confirmed.claim);
        slot.begin();
        let still_unused = || {
            self.caches.observed(name) == observed && self.caches.pods.read().is_unreferenced(name)
        };
        let applied = self
            .apply
            .perform_if(NAME, &target, action, EXPIRED, &still_unused)
            .await;
        // Every outcome requires both evaluations again.
        self.first_evaluations.forget(name);
        if !applied.may_be_written() {
            // Its owner can have each deletion refused, or end in a conflict. That delays no other
            // claim.
            slot.cancel();
        }
        if let Applied::Failed(error) = &applied {
            return Err(ReconcileError::after(EVALUATION_EXPIRES, error.to_string()));
        }
        if applied.written() {
            let event = notices::expired(name, record);
            self.apply.publish_event(Regarding::of(name, claim), event);
        }
        applied.into_reconciled()
    }
}

impl Confirmed {
    /// Whether the live reads say that the claim expires.
    fn is_due(&self) -> bool {
        self.decision == Decision::Expire
    }
}
