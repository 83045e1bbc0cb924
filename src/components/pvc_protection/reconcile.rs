//! The reconciler of pvc-protection: how a claim is processed.

use super::{
    NAME,
    last_seen::LastSeen,
    metrics,
    reasons::{FINALIZER_MISSING, NOT_IN_USE},
    rule::{Cached, Step, View, decide, decide_live},
};
use crate::{
    causes::FinishedPods,
    cluster::{
        Action, Applied, Apply, Basis, Evidence, Feed, Proof, Reconcile, ReconcileError,
        Reconciled, Requeue, SharedList, Store, Target,
    },
    objects::{
        Claim, Kind, ObjectName, Pod,
        finalizers::{FinalizerState, PVC_PROTECTION},
    },
    telemetry::Metrics,
};
use std::{sync::Arc, time::Duration};
use tokio::time::Instant;

/// Maximum age of the LIST of pods on which the removal of a finalizer rests. A removal that would
/// be sent later is decided again. Thousands of claims share one LIST, and their writes wait for
/// each other.
const MAX_AGE: Duration = Duration::from_secs(30);
/// A LIST of pods may decide about a claim if it began at most this long before the watch showed
/// the end of the claim's last pod. An earlier one may not: another pod may have got its node
/// after the LIST began, and the watch may not show that pod yet.
const MAX_LIST_LEAD: Duration = Duration::from_secs(2);

/// Adds and removes the protection finalizer of claims.
pub struct PvcProtectionReconciler {
    /// Watch of all claims, which enqueues them.
    pub claims: Arc<Feed<Claim>>,
    /// Watch of all pods with claims.
    pub pods: Arc<Feed<Pod>>,
    /// LISTs that prove that no pod uses a claim, before its finalizer is removed.
    pub live_pods: Arc<SharedList<Pod>>,
    /// Writes to the API server.
    pub apply: Arc<Apply>,
    /// Whether finished pods hold claims.
    pub finished_pods: FinishedPods,
    /// For each claim that is being deleted, the times that limit which LIST of pods may decide
    /// about it.
    pub last_seen: Arc<LastSeen>,
}

impl PvcProtectionReconciler {
    /// Registers the metrics of pvc-protection: of claims that are being deleted, and of unused
    /// ones.
    pub fn register_metrics(&self, metrics: &Metrics) {
        let (claims, pods) = (self.claims.clone(), self.pods.clone());
        metrics::register(metrics, claims, pods, self.finished_pods);
    }

    /// Decides about the claim, given these pods.
    fn judge<D>(
        &self,
        name: &ObjectName,
        claim: &Claim,
        pods: &Store<Pod>,
        decide: fn(&View<'_>) -> D,
    ) -> D {
        let pods: Vec<&Pod> = pods.referrers(name).map(|pod| &**pod).collect();
        decide(&View {
            name: &name.name,
            claim,
            pods: &pods,
            finished_pods: self.finished_pods,
        })
    }

    async fn protect(&self, name: &ObjectName, claim: &Arc<Claim>) -> Reconciled {
        let target = Target {
            // The finalizer is added to the list that was read, so the list must be unchanged.
            resource_version: Some(claim.resource_version.clone()),
            ..target(name, claim)
        };
        let action = Action::add_finalizer(PVC_PROTECTION);
        let applied = self.apply.perform(NAME, &target, action, FINALIZER_MISSING);
        self.reconciled(name, claim, applied.await)
    }

    /// Removes the finalizer from the claim. The removal rests on the LIST of pods and not on the
    /// version of the claim, so it succeeds even if the binder writes the claim's status meanwhile.
    /// It may wait for other writes: then the watch may show a pod that got its node after the LIST
    /// began.
    async fn unprotect(&self, name: &ObjectName, claim: &Arc<Claim>, proof: Proof) -> Reconciled {
        let action = Action::remove_finalizer(PVC_PROTECTION, Basis::Proof(proof));
        let (target, unused) = (target(name, claim), || !self.is_used(name, claim));
        let applied = self
            .apply
            .perform_if(NAME, &target, action, NOT_IN_USE, &unused);
        self.reconciled(name, claim, applied.await)
    }

    fn reconciled(&self, name: &ObjectName, claim: &Arc<Claim>, applied: Applied) -> Reconciled {
        if applied.written() {
            self.claims.mark_stale(name, claim);
        }
        applied.into_reconciled()
    }

    /// Lists the pods of the claim's namespace live, by a LIST that began after `since`.
    async fn live_pods(
        &self,
        claim: &ObjectName,
        since: Instant,
    ) -> Result<Evidence<Arc<Store<Pod>>>, ReconcileError> {
        let pods = self.live_pods.list_since(&claim.namespace, since).await;
        pods.map_err(|error| ReconcileError::new(format!("pods could not be listed: {error}")))
    }

    /// Returns whether a pod uses the claim, as far as the watch shows it.
    fn is_used(&self, name: &ObjectName, claim: &Claim) -> bool {
        self.judge(name, claim, &self.pods.read(), decide) == Cached::Do(Step::InUse)
    }

    /// Decides by a live LIST of pods that began after the watch showed the deletion of the claim,
    /// and at most [`MAX_LIST_LEAD`] before the watch showed the end of its last pod. If the LIST
    /// shows a pod that uses the claim, and began before that end, a later LIST decides. So a
    /// deletion of many claims and pods needs few LISTs.
    async fn confirm(&self, name: &ObjectName, claim: &Arc<Claim>) -> Reconciled {
        let seen = self.last_seen.of(name, claim);
        let earliest = seen.pods.checked_sub(MAX_LIST_LEAD);
        let since = earliest.map_or(seen.deletion, |earliest| earliest.max(seen.deletion));
        let mut pods = self.live_pods(name, since).await?;
        let mut step = self.judge(name, claim, &pods.value, decide_live);
        if step == Step::InUse && pods.began() <= seen.pods {
            pods = self.live_pods(name, seen.pods).await?;
            step = self.judge(name, claim, &pods.value, decide_live);
        }
        match step {
            // The watch shows a pod that uses the claim, and the LIST does not. The end of that pod
            // enqueues the claim again.
            Step::Unprotect if self.is_used(name, claim) => Ok(Requeue::OnEvent),
            Step::Unprotect => self.unprotect(name, claim, pods.proof(MAX_AGE)).await,
            Step::Protect => self.protect(name, claim).await,
            // The pod may be deleted before the watch delivers it. Then no change would enqueue the
            // claim, so the reconcile fails and is retried.
            Step::InUse => Err(ReconcileError::new(
                "a pod uses the claim, but the watch has not delivered that pod yet",
            )),
            Step::UpToDate => Ok(Requeue::OnEvent),
        }
    }
}

fn target<'a>(name: &'a ObjectName, claim: &'a Claim) -> Target<'a> {
    Target {
        finalizers: &claim.finalizers,
        ..Target::new(Kind::PersistentVolumeClaim, name, &claim.uid)
    }
}

impl Reconcile for PvcProtectionReconciler {
    const COMPONENT: &'static str = NAME;
    type Key = ObjectName;

    fn candidates(&self) -> Vec<ObjectName> {
        let claims = self.claims.read();
        claims.names_where(|claim| claim.finalizer_state() != FinalizerState::UpToDate)
    }

    fn is_urgent(&self, name: &ObjectName) -> bool {
        let claim = self.claims.read().get(name);
        claim.is_some_and(|claim| claim.finalizer_state() == FinalizerState::NeedsFinalizer)
    }

    async fn reconcile(&self, name: &ObjectName) -> Reconciled {
        let Some(claim) = self.claims.read().get_fresh(name) else {
            return Ok(Requeue::OnEvent);
        };
        let cached = self.judge(name, &claim, &self.pods.read(), decide);
        match cached {
            Cached::Confirm => {
                let confirmed = self.confirm(name, &claim).await;
                if confirmed.is_err() {
                    // The next attempt requires a LIST of pods that begins after this failure.
                    self.last_seen.failure(name);
                }
                confirmed
            }
            Cached::Do(Step::Protect) => self.protect(name, &claim).await,
            Cached::Do(step) => {
                tracing::debug!(component = NAME, object = %name, ?step, "no action");
                Ok(Requeue::OnEvent)
            }
        }
    }
}

#[cfg(test)]
#[path = "reconcile_tests.rs"]
mod tests;
