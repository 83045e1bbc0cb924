//! The background door: what wakes a claim, and what happens then.

use super::{
    NAME, metrics,
    reasons::IN_USE,
    rule::{Decision, Source, View, decide},
};
use crate::{
    causes::FinishedPods,
    cluster::{Apply, Change, Feed, Reconcile, Retry, SharedList, Store, Target, WorkQueue},
    objects::{Claim, Kind, ObjectName, Pod, finalizers::Standing},
    telemetry::Metrics,
};
use std::sync::Arc;

/// What the reconciler works with.
pub struct PvcProtection {
    /// All claims, as last told.
    pub claims: Arc<Feed<Claim>>,
    /// All pods with claims, as last told.
    pub pods: Arc<Feed<Pod>>,
    /// Pods, live.
    pub live_pods: Arc<SharedList<Pod>>,
    /// The writer.
    pub apply: Arc<Apply>,
    /// Whether finished pods count.
    pub finished_pods: FinishedPods,
}

impl PvcProtection {
    /// Puts a claim in line whenever something happened that may change its fate.
    pub fn listen(&self, queue: &Arc<WorkQueue<ObjectName>>) {
        let line = queue.clone();
        self.claims.listen(move |change| {
            if change
                .new
                .is_some_and(|claim| claim.standing() != Standing::Settled)
            {
                line.add(change.name.clone());
            }
        });
        let line = queue.clone();
        self.pods.listen(move |change| {
            woken_by(change)
                .into_iter()
                .for_each(|claim| line.add(claim))
        });
    }

    /// Registers the metrics of this component.
    pub fn register_metrics(&self, metrics: &Metrics) {
        let (claims, pods) = (self.claims.clone(), self.pods.clone());
        metrics::register(metrics, claims, pods, self.finished_pods);
    }

    fn decide(
        &self,
        name: &ObjectName,
        claim: &Claim,
        pods: &Store<Pod>,
        source: Source,
    ) -> Decision {
        let pods: Vec<&Pod> = pods.referrers(name).map(|pod| &**pod).collect();
        decide(&View {
            name: &name.name,
            claim,
            pods: &pods,
            source,
            finished_pods: self.finished_pods,
        })
    }

    async fn act(
        &self,
        name: &ObjectName,
        claim: &Arc<Claim>,
        decision: Decision,
    ) -> Result<(), Retry> {
        let (action, reason) = match decision {
            Decision::Act(action, reason) => (action, reason),
            Decision::Leave(reason) => {
                tracing::debug!(component = NAME, object = %name, reason, "left");
                return Ok(());
            }
            Decision::Confirm => return Ok(()),
        };
        let target = Target {
            kind: Kind::PersistentVolumeClaim,
            name,
            uid: &claim.uid,
            // A finalizer is added to the list as it was seen, so the list must still be that. Its removal rests on the pods and
            // is not disturbed by the binder writing the claim's status.
            resource_version: (claim.standing() == Standing::NeedsFinalizer)
                .then_some(&*claim.resource_version),
            finalizers: &claim.finalizers,
            decided: None,
        };
        let applied = self.apply.perform(NAME, &target, action, reason).await;
        if applied.written() {
            self.claims.outdate(name, claim);
        }
        applied.settled()
    }
}

impl Reconcile for PvcProtection {
    const COMPONENT: &'static str = NAME;
    type Key = ObjectName;

    fn candidates(&self) -> Vec<ObjectName> {
        let claims = self.claims.read();
        claims.names_where(|claim| claim.standing() != Standing::Settled)
    }

    async fn reconcile(&self, name: &ObjectName) -> Result<(), Retry> {
        let Some(claim) = self.claims.read().get(name) else {
            return Ok(());
        };
        let cached = self.decide(name, &claim, &self.pods.read(), Source::Cache);
        if cached != Decision::Confirm {
            return self.act(name, &claim, cached).await;
        }
        // The claim's deletion is known already, so a LIST that begins from here on is younger than it.
        let pods = self
            .live_pods
            .list(&name.namespace)
            .await
            .map_err(|error| Retry::new(format!("pods could not be listed: {error}")))?;
        match self.decide(name, &claim, &pods, Source::Live) {
            // It may be gone before the watch, which is behind, ever tells of it; then nothing would wake the claim.
            Decision::Leave(Some(IN_USE)) => {
                Err(Retry::new("a pod uses it that the watch has not told of"))
            }
            confirmed => self.act(name, &claim, confirmed).await,
        }
    }
}

/// The claims that a change of a pod may set free, or that need another look because of it.
///
/// A pod that merely goes on running wakes nothing. One that is replaced by a namesake within one event wakes what the first
/// one used.
pub(super) fn woken_by(change: &Change<'_, Pod>) -> Vec<ObjectName> {
    let replaced = |old: &Pod| change.new.is_none_or(|new| new.uid != old.uid);
    let left = change.old.filter(|old| replaced(old) || !old.scheduled);
    let lets_go = |new: &Pod| new.terminated() || new.shut_down || !new.scheduled;
    let idle = change.new.filter(|new| lets_go(new));
    let claims = left.into_iter().chain(idle).flat_map(|pod| pod.claims());
    claims
        .map(|claim| ObjectName::new(change.name.namespace.clone(), claim.clone()))
        .collect()
}
