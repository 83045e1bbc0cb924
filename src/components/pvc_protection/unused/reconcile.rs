//! The reconciler of the condition `Unused`: which changes enqueue a claim, and how its condition
//! is written.

use super::{
    InTreeWriter, NAME, UnusedCondition,
    reasons::{CONDITION_OFF, NO_PODS_USING_PVC, POD_USING_PVC},
    rule::{Step, decide},
};
use crate::{
    cluster::{
        Action, Apply, Basis, Change, Excluded, Feed, LatestTime, LiveGet, Reconcile,
        ReconcileError, Reconciled, Requeue, SharedList, Store, Target, WorkQueue,
    },
    objects::{Claim, ObjectName, Pod, claim::ClaimPhase, unused},
};
use serde_json::json;
use std::{sync::Arc, time::Duration};

/// Maximum age of the LIST of pods that the status True rests on.
const MAX_AGE: Duration = Duration::from_secs(30);
/// Time limit of the live read of a claim.
const READ_LIMIT: Duration = Duration::from_secs(10);

/// Writes the condition `Unused` of claims.
pub struct UnusedReconciler {
    /// Watch of all claims, which enqueues them.
    pub claims: Arc<Feed<Claim>>,
    /// Watch of all pods with claims.
    pub pods: Arc<Feed<Pod>>,
    /// LISTs that prove that no pod uses a claim, before the condition becomes True.
    pub live_pods: Arc<SharedList<Pod>>,
    /// Reads a claim live, to find out whether its condition is written already.
    pub live_claims: Arc<LiveGet<Claim>>,
    /// Writes to the API server.
    pub apply: Arc<Apply>,
    /// The time of a transition, from which pvc-expiry counts.
    pub time: LatestTime,
    /// Whether Volume Warden writes the condition.
    pub mode: UnusedCondition,
    /// Namespaces that have opted out.
    pub excluded: Excluded,
    /// Whether kube-controller-manager writes the condition.
    pub in_tree: Arc<InTreeWriter>,
}

impl UnusedReconciler {
    /// Enqueues a claim when a change of it or of a pod may require a write of its condition.
    /// Learns from the changes of claims who writes conditions.
    pub fn listen(&self, queue: &Arc<WorkQueue<ObjectName>>) {
        let (claim_queue, in_tree) = (queue.clone(), self.in_tree.clone());
        self.claims.listen(move |change| {
            let Some(new) = change.new else {
                return in_tree.stop_waiting(change.name);
            };
            if let Some(old) = change.old {
                in_tree.observe(change.name, old, new);
            }
            // Every change of a bound claim enqueues it, because a change of a pod may have had no
            // effect: for up to a minute after a write of another reconciler, `get_fresh` hides
            // the claim.
            if new.phase == ClaimPhase::Bound && !new.deleting {
                claim_queue.add(change.name.clone());
            }
        });
        let queue = queue.clone();
        self.pods.listen(move |change| {
            for claim in affected_by(change) {
                queue.add(claim);
            }
        });
    }

    /// Returns the mode of this namespace: that of `--unused-condition`, but Off in a namespace
    /// that has opted out, so that a condition of Volume Warden, which would become wrong, is
    /// removed.
    fn mode_in(&self, namespace: &str) -> UnusedCondition {
        if self.excluded.contains(namespace) {
            UnusedCondition::Off
        } else {
            self.mode
        }
    }

    fn decide(&self, name: &ObjectName, claim: &Claim, pods: &Store<Pod>) -> Step {
        decide(&name.name, claim, pods.referrers(name).map(|pod| &**pod))
    }

    /// Decides by the watches. Does nothing if the condition is correct, or kube-controller-manager
    /// is to write it. If a watched pod uses the claim, writes the status False. Otherwise calls
    /// [`Self::confirm`], because the status True requires a LIST of the namespace's pods.
    async fn update(&self, name: &ObjectName, claim: &Arc<Claim>) -> Reconciled {
        let step = self.decide(name, claim, &self.pods.read());
        if step == Step::Leave {
            self.in_tree.stop_waiting(name);
            return Ok(Requeue::OnEvent);
        }
        if let Some(requeue) = self.left_to_other(name, claim).await? {
            return Ok(requeue);
        }
        if step == Step::Used {
            return self.write(name, claim, false, Basis::Object).await;
        }
        self.confirm(name, claim).await
    }

    /// Returns when to reconcile the claim again while kube-controller-manager writes the
    /// condition; none if Volume Warden has to write it.
    async fn left_to_other(
        &self,
        name: &ObjectName,
        claim: &Claim,
    ) -> Result<Option<Requeue>, ReconcileError> {
        if self.mode == UnusedCondition::On {
            return Ok(None);
        }
        let Some(delay) = self.in_tree.wait(name) else {
            return Ok(None);
        };
        if !delay.is_zero() {
            let reason = "waiting for kube-controller-manager to write the claim's condition \
                Unused, as it does for other claims";
            return Ok(Some(Requeue::After(delay, reason.into())));
        }
        if self.is_written(name, claim).await? {
            self.in_tree.stop_waiting(name);
            return Ok(Some(Requeue::OnEvent));
        }
        tracing::info!(
            object = %name,
            "kube-controller-manager no longer writes the condition Unused of claims, so Volume \
             Warden writes it from now on"
        );
        self.in_tree.take_over();
        Ok(None)
    }

    /// Reads the claim live, and returns whether its condition differs from the one that the watch
    /// delivered, or the claim does not exist any more. If so, the watch is late, and will deliver
    /// the change.
    async fn is_written(&self, name: &ObjectName, claim: &Claim) -> Result<bool, ReconcileError> {
        let live = self
            .live_claims
            .get(name, READ_LIMIT)
            .await
            .map_err(ReconcileError::unread("the claim"))?;
        let unwritten = |live: Claim| live.uid == claim.uid && live.unused == claim.unused;
        Ok(!live.is_some_and(unwritten))
    }

    /// Decides by a live LIST of pods.
    async fn confirm(&self, name: &ObjectName, claim: &Arc<Claim>) -> Reconciled {
        let pods = self.live_pods.list(&name.namespace).await;
        let pods = pods
            .map_err(|error| ReconcileError::new(format!("pods could not be listed: {error}")))?;
        match self.decide(name, claim, &pods.value) {
            // The cache has a pod that the LIST lacks: the watch has delivered a newer pod, which
            // has enqueued the claim again.
            Step::Unused if self.decide(name, claim, &self.pods.read()) != Step::Unused => {
                Ok(Requeue::OnEvent)
            }
            Step::Unused => {
                let basis = Basis::Proof(pods.proof(MAX_AGE));
                self.write(name, claim, true, basis).await
            }
            Step::Used => self.write(name, claim, false, Basis::Object).await,
            // The pod may be deleted before the watch delivers it. Then no change would enqueue the
            // claim, so the reconcile fails and is retried.
            Step::Leave => Err(ReconcileError::new(
                "a pod uses the claim, but the watch has not delivered that pod yet",
            )),
        }
    }

    async fn write(
        &self,
        name: &ObjectName,
        claim: &Arc<Claim>,
        unused: bool,
        basis: Basis,
    ) -> Reconciled {
        let status = unused::status(unused, self.time.now());
        let reason = if unused {
            NO_PODS_USING_PVC
        } else {
            POD_USING_PVC
        };
        let action = Action::apply_status(status, basis);
        self.perform(name, claim, action, reason).await
    }

    /// Removes the condition if Volume Warden wrote it and the claim is not being deleted.
    async fn remove(&self, name: &ObjectName, claim: &Arc<Claim>) -> Reconciled {
        if !claim.removable_unused() {
            return Ok(Requeue::OnEvent);
        }
        let action = Action::apply_status(json!({}), Basis::Object);
        self.perform(name, claim, action, CONDITION_OFF).await
    }

    async fn perform(
        &self,
        name: &ObjectName,
        claim: &Arc<Claim>,
        action: Action,
        reason: &'static str,
    ) -> Reconciled {
        // The write tests the resourceVersion: the binder and the resizer write the status, too,
        // and a deletion may have begun.
        let target = Target::of(name, claim);
        // The claim is not marked as stale, because that would hide it from other reconcilers, and
        // the changed condition would not enqueue it for them. A second write before the watch
        // delivers the first is refused because of its resourceVersion.
        let applied = self.apply.perform(NAME, &target, action, reason).await;
        applied.into_reconciled()
    }
}

impl Reconcile for UnusedReconciler {
    const COMPONENT: &'static str = NAME;
    type Key = ObjectName;

    fn candidates(&self) -> Vec<ObjectName> {
        // The claims are copied, so that their lock is released before the pods are locked.
        let claims: Vec<(ObjectName, Arc<Claim>)> = {
            let claims = self.claims.read();
            let bound =
                |claim: &Claim| claim.phase == ClaimPhase::Bound || claim.removable_unused();
            let bound = claims.objects().filter(|(_, claim)| bound(claim));
            bound
                .map(|(name, claim)| (name.clone(), claim.clone()))
                .collect()
        };
        self.in_tree
            .assess(claims.iter().map(|(_, claim)| &**claim));
        let pods = self.pods.read();
        claims
            .into_iter()
            .filter(|(name, claim)| match self.mode_in(&name.namespace) {
                UnusedCondition::Off => claim.removable_unused(),
                _ => self.decide(name, claim, &pods) != Step::Leave,
            })
            .map(|(name, _)| name)
            .collect()
    }

    async fn reconcile(&self, name: &ObjectName) -> Reconciled {
        let Some(claim) = self.claims.read().get_fresh(name) else {
            return Ok(Requeue::OnEvent);
        };
        match self.mode_in(&name.namespace) {
            UnusedCondition::Off => self.remove(name, &claim).await,
            UnusedCondition::Auto | UnusedCondition::On => self.update(name, &claim).await,
        }
    }
}

/// The claims whose condition may change after this change of a pod; none if the pod keeps its uid
/// and its claims, and did not end by this change.
pub(super) fn affected_by(change: &Change<'_, Pod>) -> Vec<ObjectName> {
    let same = change.old.zip(change.new).is_some_and(|(old, new)| {
        old.uid == new.uid && old.terminated() == new.terminated() && old.mounts == new.mounts
    });
    let pods = [change.old, change.new].into_iter().flatten();
    let claims = pods.filter(|_| !same).flat_map(|pod| pod.claims());
    claims
        .map(|claim| ObjectName::new(change.name.namespace.clone(), claim.clone()))
        .collect()
}

#[cfg(test)]
#[path = "reconcile_tests.rs"]
mod tests;
