//! The reconciler of pvc-expiry: which live reads a decision needs, and what it writes.

use super::{
    NAME,
    caches::Caches,
    confirm::Live,
    first_evaluations::FirstEvaluations,
    named::NamedClaims,
    notices,
    reasons::{EXPIRING, EXPIRY_CANCELLED, FAILED_ANNOUNCE},
    referrers::NAMES_AGE,
    requeue::wait,
    rule::{Decision, LeaveReason, earliest},
    triggers,
};
use crate::{
    cluster::{
        Action, Apply, Basis, EventDeduplicator, HourlyLimit, Lane, OnRefusal, Reconcile,
        Reconciled, Regarding, Requeue, Target, WorkQueue,
    },
    objects::{
        Claim, ObjectName,
        expiry::EXPIRES_AT,
        patch::{add, remove},
    },
};
use k8s_openapi::jiff::Timestamp;
use serde_json::json;
use std::sync::Arc;
use tokio::time::Instant;

/// Announces the deletion of claims that no pod has used for a long time, and deletes them or
/// cancels the announcement.
pub struct PvcExpiryReconciler {
    /// The watches that pvc-expiry reads.
    pub caches: Caches,
    /// The live reads before an announcement or a deletion.
    pub live: Live,
    /// Writes to the API server.
    pub apply: Arc<Apply>,
    /// Limits the deletions of any hour to `--expiry-max-deletions`.
    pub limit: HourlyLimit,
    /// When live reads first showed that a claim is due, by claim.
    pub first_evaluations: FirstEvaluations,
    /// The claims that a workload or a custom resource named at the last read.
    pub named: NamedClaims,
    /// The causes that Events have already reported, by claim.
    pub reported: Arc<EventDeduplicator<ObjectName, LeaveReason>>,
    /// The times of expiry that Events have already announced, by claim.
    pub announced: Arc<EventDeduplicator<ObjectName, Timestamp>>,
    /// The claims of which Events have already reported that what names them cannot be read.
    pub unread: Arc<EventDeduplicator<ObjectName, ()>>,
    /// The errors that Events have already reported, by StorageClass.
    pub classes: Arc<EventDeduplicator<ObjectName, String>>,
}

impl PvcExpiryReconciler {
    /// Enqueues a claim on every change that may affect the decision about it.
    pub fn listen(&self, queue: &Arc<WorkQueue<ObjectName>>) {
        triggers::listen(&self.caches, queue);
    }

    async fn announce(&self, name: &ObjectName, claim: &Claim, at: Timestamp) -> Reconciled {
        let since = Instant::now()
            .checked_sub(NAMES_AGE)
            .unwrap_or_else(Instant::now);
        if let Some(what) = self.named_by(name, claim, since).await?.first() {
            return Ok(self.named.remember(name, &claim.uid, what));
        }
        // The clock of this process may be slow, and that of the next leader right.
        let at = at.max(earliest(self.caches.time.now()));
        let at_text = json!(at.to_string());
        let operation = if claim.annotated {
            add(&["annotations", EXPIRES_AT], at_text)
        } else {
            add(&["annotations"], json!({EXPIRES_AT: at_text}))
        };
        let action = Action::patch(
            "AnnounceExpiry",
            Lane::Bulk,
            vec![operation],
            Basis::Object,
            OnRefusal::new(FAILED_ANNOUNCE),
        )
        .of_existing();
        // The next reconcile, of the annotated claim, publishes the Event.
        let target = Target::of(name, claim);
        let applied = self.apply.perform(NAME, &target, action, EXPIRING).await;
        applied.into_reconciled()
    }

    pub(super) async fn cancel(&self, name: &ObjectName, claim: &Claim) -> Reconciled {
        let removal = vec![remove(&["annotations", EXPIRES_AT])];
        let action = Action::disown(removal.clone(), removal, Basis::Object)
            .named("CancelExpiry")
            .on_refusal(OnRefusal::new(FAILED_ANNOUNCE))
            .of_existing();
        let target = Target::of(name, claim);
        let applied = self.apply.perform(NAME, &target, action, EXPIRY_CANCELLED);
        let applied = applied.await;
        if applied.written() {
            let event = notices::cancelled(name);
            self.apply.publish_event(Regarding::of(name, claim), event);
        }
        applied.into_reconciled()
    }

    /// Removes the announcement from a claim of a namespace that has opted out. Otherwise the claim
    /// could expire, without another announcement, as soon as the namespace opts in again.
    async fn opted_out(&self, name: &ObjectName, claim: &Claim) -> Reconciled {
        self.first_evaluations.forget(name);
        if claim.rare.is_announced() && !claim.deleting {
            self.cancel(name, claim).await
        } else {
            Ok(Requeue::OnEvent)
        }
    }
}

impl Reconcile for PvcExpiryReconciler {
    const COMPONENT: &'static str = NAME;
    type Key = ObjectName;

    fn candidates(&self) -> Vec<ObjectName> {
        self.reported
            .retain(|name| self.caches.claim(name).is_some());
        self.announced
            .retain(|name| self.caches.claim(name).is_some());
        self.unread.retain(|name| self.caches.claim(name).is_some());
        self.named.retain(|name| self.caches.claim(name).is_some());
        let classes = self.caches.expiring_classes();
        self.classes
            .retain(|name| classes.iter().any(|(each, _)| each == name));
        for (name, class) in classes {
            self.report_class(&name, &class);
        }
        let candidates = self.caches.candidates().into_iter();
        candidates.map(|(name, _)| name).collect()
    }

    async fn reconcile(&self, name: &ObjectName) -> Reconciled {
        let Some(claim) = self.caches.claim(name) else {
            self.first_evaluations.forget(name);
            return Ok(Requeue::OnEvent);
        };
        if self.caches.excludes(&name.namespace) {
            return self.opted_out(name, &claim).await;
        }
        let decision = self.caches.judge(name, &claim);
        let left = match decision {
            Decision::Leave(left) => Some(left),
            _ => None,
        };
        self.report(name, &claim, left);
        let announced = match decision {
            Decision::Wait(at) if claim.rare.is_announced() => Some(at),
            _ => None,
        };
        self.report_announced(name, &claim, announced);
        if decision != Decision::Expire {
            self.first_evaluations.forget(name);
        }
        let acts = matches!(decision, Decision::Announce(_) | Decision::Expire);
        if let Some(rest) = self.named.rest(name, &claim.uid).filter(|_| acts) {
            return Ok(rest);
        }
        match decision {
            Decision::Leave(left) => {
                tracing::debug!(component = NAME, object = %name, ?left, "no action");
                Ok(Requeue::OnEvent)
            }
            Decision::Cancel(_) => self.cancel(name, &claim).await,
            Decision::Wait(until) => Ok(wait(self.caches.time.local(), until)),
            Decision::Announce(at) => self.announce(name, &claim, at).await,
            Decision::Expire => self.expire(name, &claim).await,
        }
    }
}

#[cfg(test)]
#[path = "reconcile_tests.rs"]
mod tests;
