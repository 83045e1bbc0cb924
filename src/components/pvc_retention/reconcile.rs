//! The reconciler of pvc-retention: processes a StatefulSet as a whole, so that all its claims
//! share the live reads.

use super::{
    NAME, READ_LIMIT,
    caches::Caches,
    fate::Fate,
    judged::{Judged, Read, Work, managed},
    metrics,
    notices::{EventDeduplicator, event_content},
    other_sets::{LiveSets, OtherSets},
    patch::action,
    reasons::SCALED_DOWN,
    rule::{Step, Verdict},
    subject::Subject,
    triggers,
};
use crate::{
    cluster::{
        Action, Apply, Reconcile, ReconcileError, Reconciled, Regarding, Requeue, SharedList,
        Store, WorkQueue,
    },
    hashing::{HashMap, HashSet},
    objects::{Kind, ObjectName, Pod, StatefulSet},
    telemetry::Metrics,
};
use futures::future::join_all;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::{sync::Arc, time::Duration};
use tokio::time::Instant;

/// Maximum age of the live read of a StatefulSet on which a write of its claims may rest, because
/// the StatefulSet may be scaled or deleted meanwhile.
const MAX_AGE: Duration = Duration::from_secs(2);
/// Maximum number of Events of one evaluation. Each of them is a task, and a tenant may have tens
/// of thousands of claims that each cause an Event.
const EVENTS_AT_ONCE: usize = 50;
/// Delay of the evaluation that publishes the next [`EVENTS_AT_ONCE`].
const NEXT_EVENTS: Duration = Duration::from_secs(30);
/// Time after which an Event says that a claim which is being deleted blocks its pod: if a user
/// deletes both, the claim is mostly deleted within a second after the pod.
const BLOCKED_AFTER: Duration = Duration::from_secs(10);

/// Applies the retention policy of a StatefulSet to its claims.
pub struct PvcRetentionReconciler {
    /// The watches that pvc-retention reads.
    pub caches: Caches,
    /// Live reads of single StatefulSets.
    pub live_sets: LiveSets,
    /// The same for [`Self::rescue`], so that changes that keep claims do not wait for other reads.
    pub live_rescues: LiveSets,
    /// LISTs of the pods of one namespace, from the API server instead of the watch.
    pub live_pods: Arc<SharedList<Pod>>,
    /// Writes to the API server.
    pub apply: Arc<Apply>,
    /// The Events that were already published.
    pub events: Arc<EventDeduplicator>,
    /// The claims that block their pods, by StatefulSet, with the time of the first evaluation that
    /// found so.
    pub blocking: Mutex<HashMap<ObjectName, HashMap<ObjectName, Instant>>>,
}

impl PvcRetentionReconciler {
    /// Enqueues a StatefulSet on every change that may affect the fate of its claims.
    pub fn listen(&self, queue: &Arc<WorkQueue<Subject>>) {
        triggers::listen(&self.caches, queue);
    }

    /// Registers the metrics of StatefulSets by policy, and of their claims by fate.
    pub fn register_metrics(&self, metrics: &Metrics) {
        metrics::register(metrics, self.caches.clone());
    }

    /// Decides about the claims by live reads of StatefulSets and, if a decision depends on them,
    /// of the pods. `cached` are the decisions by the watches. None if the StatefulSet is not
    /// managed any more.
    ///
    /// The StatefulSet is read last: its policy causes the deletion of claims, so no slow call may
    /// lie between that read and the deletion. The others to which claims may belong are read after
    /// the LIST of pods, which would show a pod of a new one. If the StatefulSet controller creates
    /// a pod after the LIST of pods, the later read of the StatefulSet shows that the ordinal of
    /// the pod is in range, so its claim is kept.
    async fn confirm(
        &self,
        name: &ObjectName,
        cached: &Judged,
    ) -> Result<Option<Judged>, ReconcileError> {
        let members = &cached.members;
        let mut other_sets = OtherSets::read(&self.live_sets, name, members).await?;
        let mut rests_on_pods = cached.verdicts.iter().any(Verdict::rests_on_pods)
            || !cached.doubted(name).is_empty()
            || members.iter().any(|member| other_sets.may_own(member));
        loop {
            let pods = if rests_on_pods {
                Some(self.pods(name).await?)
            } else {
                None
            };
            if pods.is_some() {
                other_sets = OtherSets::read(&self.live_sets, name, members).await?;
            }
            let Some(live) = self.live(&self.live_sets, name, cached).await? else {
                return Ok(None);
            };
            let judge = |pods: &Store<Pod>| {
                let members = other_sets.reassign(name, &live.set, members, pods);
                live.judge(name, members, pods)
            };
            let judged = match &pods {
                Some(pods) => judge(pods),
                None => judge(&self.caches.pods.read()),
            };
            rests_on_pods = judged.verdicts.iter().any(Verdict::rests_on_pods);
            if pods.is_some() || !rests_on_pods {
                return Ok(Some(judged));
            }
        }
    }

    /// Reads the StatefulSet live. None if it is deleted, being deleted or recreated, or has no
    /// retention policy: then no claim is written, and the watch enqueues it again.
    async fn live(
        &self,
        live: &LiveSets,
        name: &ObjectName,
        cached: &Judged,
    ) -> Result<Option<Read>, ReconcileError> {
        let set = live
            .one
            .read(name, READ_LIMIT)
            .await
            .map_err(ReconcileError::unread("the StatefulSet"))?;
        let proof = set.strict_proof(MAX_AGE);
        let read = set.value.and_then(|set| managed(set, Some(proof)));
        Ok(read.filter(|read| read.set.uid == cached.set.uid))
    }

    async fn pods(&self, name: &ObjectName) -> Result<Arc<Store<Pod>>, ReconcileError> {
        let live = self.live_pods.list(&name.namespace).await;
        let live =
            live.map_err(|error| ReconcileError::new(format!("pods could not be listed: {error}")));
        Ok(live?.value)
    }

    /// Writes the changes of these claims of the StatefulSet `name`.
    async fn act<'a>(
        &self,
        name: &ObjectName,
        judged: &Judged,
        work: impl Iterator<Item = Work<'a>>,
    ) -> Reconciled {
        let acts = work.map(|work| self.act_on(name, judged, work));
        let done: Result<Vec<Requeue>, _> = join_all(acts).await.into_iter().collect();
        done.map(|_| Requeue::OnEvent)
    }

    async fn act_on(
        &self,
        set: &ObjectName,
        judged: &Judged,
        (member, verdict): Work<'_>,
    ) -> Reconciled {
        // Nothing is written without a live read of the StatefulSet.
        let Some(proof) = judged.proof else {
            return Ok(Requeue::OnEvent);
        };
        let (action, reason) = match &verdict.step {
            Step::Leave => return Ok(Requeue::OnEvent),
            Step::Update(update) => (
                action(&member.claim, verdict, update, proof),
                verdict.fate.name(),
            ),
            Step::Delete => (Action::delete(proof), SCALED_DOWN),
        };
        // A step that leads to a deletion because of a pod is not undone if the pod is replaced, or
        // the StatefulSet is scaled up, while the write waits for its turn: the garbage collector
        // would delete the claim of the new pod. Any other step is undone by the next evaluation.
        let still_holds =
            || !verdict.rests_on_pods() || self.caches.still_requires(set, member, &verdict.step);
        let target = member.target();
        let applied = self
            .apply
            .perform_if(NAME, &target, action, reason, &still_holds)
            .await;
        if applied.written() {
            self.caches.claims.mark_stale(&member.name, &member.claim);
        }
        applied.into_reconciled()
    }

    /// Publishes the Events about the claims of the StatefulSet that have not been published yet,
    /// at most [`EVENTS_AT_ONCE`]. If later calls are to publish others, returns the delay.
    fn publish(&self, name: &ObjectName, judged: &Judged) -> Option<Duration> {
        let verdicts = judged.members.iter().zip(&judged.verdicts);
        let early = self.blocking_for_less(BLOCKED_AFTER, name, verdicts.clone());
        let announced = verdicts.filter_map(|(member, verdict)| {
            if early.contains(&member.name) {
                return None;
            }
            let set = (name, &judged.set.uid);
            let event_content = event_content(set, member, verdict.fate)?;
            let cause = (member.name.name.clone(), event_content.reason);
            Some((cause, event_content))
        });
        let mut announced: BTreeMap<_, _> = announced.collect();
        let causes = announced.keys().cloned().collect();
        let new_causes = self.events.new_causes(name, &judged.set.uid, causes);
        announced.retain(|cause, _| new_causes.contains(cause));
        let remain = announced.len() > EVENTS_AT_ONCE;
        for (place, (cause, event_content)) in announced.into_iter().enumerate() {
            if place >= EVENTS_AT_ONCE {
                self.events.forget_cause(name, &cause);
                continue;
            }
            let regarding = Regarding::of(name, &judged.set);
            let postpone = self.events.postponing(name, &cause);
            self.apply
                .publish_event_or(regarding, event_content, postpone);
        }
        if remain {
            return Some(NEXT_EVENTS);
        }
        (!early.is_empty()).then_some(BLOCKED_AFTER)
    }

    /// Returns the claims of the StatefulSet that block their pods, and were first found to do so
    /// less than `time` ago.
    fn blocking_for_less<'a>(
        &self,
        time: Duration,
        set: &ObjectName,
        verdicts: impl Iterator<Item = Work<'a>>,
    ) -> HashSet<ObjectName> {
        let now = Instant::now();
        let mut all = self.blocking.lock();
        let before = all.remove(set).unwrap_or_default();
        let blocking = verdicts.filter(|(_, verdict)| verdict.fate == Fate::PodBlockedByClaim);
        let since = |claim: &ObjectName| before.get(claim).copied().unwrap_or(now);
        let blocking = blocking.map(|(member, _)| (member.name.clone(), since(&member.name)));
        let blocking: HashMap<_, _> = blocking.collect();
        let early = blocking.iter().filter(|(_, since)| now - **since < time);
        let early = early.map(|(claim, _)| claim.clone()).collect();
        if !blocking.is_empty() {
            all.insert(set.clone(), blocking);
        }
        early
    }
}

impl PvcRetentionReconciler {
    /// The claims of the StatefulSet and the verdicts on them by the watches. `None` if the
    /// StatefulSet is not managed.
    fn judge_cached(&self, name: &ObjectName) -> Option<Judged> {
        let set = self.caches.sets.read().get(name)?;
        let cached = managed(StatefulSet::clone(&set), None)?;
        let members = self.caches.members(name);
        Some(cached.judge(name, members, &self.caches.pods.read()))
    }

    /// Writes the changes that keep claims of the StatefulSet. Pods are not read live, so that
    /// nothing delays these changes. [`Self::follow_policy`] processes a claim whose pod the watch
    /// does not show, and adds the owner of a claim that another StatefulSet may have created.
    async fn rescue(&self, name: &ObjectName) -> Reconciled {
        let Some(cached) = self.judge_cached(name) else {
            return Ok(Requeue::OnEvent);
        };
        if cached.rescues().next().is_none() {
            return Ok(Requeue::OnEvent);
        }
        let sets = &self.live_rescues;
        let other_sets = OtherSets::read(sets, name, &cached.members).await?;
        let Some(live) = self.live(sets, name, &cached).await? else {
            return Ok(Requeue::OnEvent);
        };
        let mut judged = {
            let pods = self.caches.pods.read();
            let members = other_sets.reassign(name, &live.set, &cached.members, &pods);
            live.judge(name, members, &pods)
        };
        // Only cached pods show to which of the StatefulSets the claim belongs.
        judged.only_remove(|member| other_sets.may_own(member));
        self.act(name, &judged, judged.rescues()).await
    }

    async fn follow_policy(&self, name: &ObjectName) -> Reconciled {
        if self.caches.sets.read().get(name).is_none() {
            self.events.forget(name);
        }
        let Some(mut judged) = self.judge_cached(name) else {
            return Ok(Requeue::OnEvent);
        };
        let doubted = judged.doubted(name);
        // A namespace that has opted out gets only changes that keep a claim.
        let excluded = self
            .apply
            .excludes(Kind::PersistentVolumeClaim, &name.namespace);
        if excluded && doubted.is_empty() {
            return Ok(Requeue::OnEvent);
        }
        if !doubted.is_empty() || judged.others().next().is_some() {
            let Some(confirmed) = self.confirm(name, &judged).await? else {
                return Ok(Requeue::OnEvent);
            };
            judged = confirmed;
        }
        let rescues = judged.rescues();
        let found = rescues.filter(|(member, _)| doubted.contains(&member.name));
        let work = judged.others().chain(found);
        let acted = self.act(name, &judged, work).await;
        match (self.publish(name, &judged), acted?) {
            (Some(delay), Requeue::OnEvent) => Ok(Requeue::After(
                delay,
                "publishing further Events".to_owned(),
            )),
            (_, requeue) => Ok(requeue),
        }
    }
}

impl Reconcile for PvcRetentionReconciler {
    const COMPONENT: &'static str = NAME;
    type Key = Subject;

    fn candidates(&self) -> Vec<Subject> {
        let sets = self.caches.sets.read();
        // Events are forgotten for StatefulSets that were deleted while another replica led.
        self.events.retain(|name| sets.get(name).is_some());
        self.blocking
            .lock()
            .retain(|name, _| sets.get(name).is_some());
        let names = sets.names_where(|_| true);
        names.iter().flat_map(Subject::both).collect()
    }

    fn is_urgent(&self, subject: &Subject) -> bool {
        matches!(subject, Subject::Rescue(_))
    }

    async fn reconcile(&self, subject: &Subject) -> Reconciled {
        match subject {
            Subject::Rescue(set) => self.rescue(set).await,
            Subject::Policy(set) => self.follow_policy(set).await,
        }
    }
}

#[cfg(test)]
#[path = "reconcile_tests.rs"]
mod tests;
