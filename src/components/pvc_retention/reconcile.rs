//! The reconciler: a set is looked at as a whole, so that its claims share one live read of it, however many they are.

use super::{
    NAME, READ_LIMIT,
    caches::Caches,
    judged::{Judged, Read, Work, managed},
    metrics,
    notices::{EventDeduplicator, announcement},
    patch::action,
    rivals::Rivals,
    rule::{Step, Verdict},
    subject::Subject,
    triggers,
};
use crate::{
    cluster::{Action, Apply, LiveGet, Reconcile, Regarding, Retry, SharedList, Store, WorkQueue},
    objects::{Kind, ObjectName, Pod, StatefulSet},
    telemetry::Metrics,
};
use futures::future::join_all;
use std::{collections::HashMap, sync::Arc, time::Duration};

/// Maximum age of the read of a set for its claims to be written by it. The set may be scaled or
/// deleted meanwhile.
const MAX_AGE: Duration = Duration::from_secs(2);

/// What the reconciler works with.
pub struct PvcRetentionReconciler {
    /// What the watches told.
    pub caches: Caches,
    /// One set, live.
    pub live_sets: Arc<LiveGet<StatefulSet>>,
    /// Pods, live.
    pub live_pods: Arc<SharedList<Pod>>,
    /// The writer.
    pub apply: Arc<Apply>,
    /// What users have been told.
    pub events: Arc<EventDeduplicator>,
}

impl PvcRetentionReconciler {
    /// Puts a set in line whenever something happened that may change the fate of its claims.
    pub fn listen(&self, queue: &Arc<WorkQueue<Subject>>) {
        triggers::listen(&self.caches, queue);
    }

    /// Registers the metrics of this component.
    pub fn register_metrics(&self, metrics: &Metrics) {
        metrics::register(metrics, self.caches.clone());
    }

    /// As the API server knows pods and sets right now, where `cached` is what the watches make one think.
    ///
    /// The set is read last: a claim is deleted because the set does not want it, so nothing that takes long may lie in between. If
    /// a pod is created after the pods were read, its ordinal is wanted again, and the set read afterwards says so.
    async fn confirm(&self, name: &ObjectName, cached: &Judged) -> Result<Option<Judged>, Retry> {
        let members = &cached.members;
        let rivals = Rivals::read(&self.live_sets, name, members).await?;
        let mut rests_on_pods = cached.verdicts.iter().any(Verdict::rests_on_pods)
            || members.iter().any(|member| rivals.contest(member));
        loop {
            let pods = match rests_on_pods {
                true => Some(self.pods(name).await?),
                false => None,
            };
            let Some(live) = self.live(name, cached).await? else {
                return Ok(None);
            };
            let judge = |pods: &Store<Pod>| {
                let own = rivals.leave(name, &live.set, members, pods);
                live.judge(name, own, pods)
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

    /// The set as the API server knows it right now. If it is gone, going or another one, the watch will tell.
    async fn live(&self, name: &ObjectName, cached: &Judged) -> Result<Option<Read>, Retry> {
        let set = self.live_sets.read(name, READ_LIMIT).await;
        let set = set.map_err(|error| Retry::new(format!("the set could not be read: {error}")))?;
        let proof = set.proof(MAX_AGE);
        let read = set.value.and_then(|set| managed(set, Some(proof)));
        Ok(read.filter(|read| read.set.uid == cached.set.uid))
    }

    async fn pods(&self, name: &ObjectName) -> Result<Arc<Store<Pod>>, Retry> {
        let live = self.live_pods.list(&name.namespace).await;
        let live = live.map_err(|error| Retry::new(format!("pods could not be listed: {error}")));
        Ok(live?.value)
    }

    /// Does what is wanted of these claims.
    async fn act<'a>(
        &self,
        judged: &Judged,
        work: impl Iterator<Item = Work<'a>>,
    ) -> Result<(), Retry> {
        let acts = work.map(|work| self.act_on(judged, work));
        join_all(acts).await.into_iter().collect()
    }

    async fn act_on(&self, judged: &Judged, (member, verdict): Work<'_>) -> Result<(), Retry> {
        let (claim, name) = (&member.claim, &member.name);
        // Nothing is written by what only the watches show.
        let Some(proof) = judged.proof else {
            return Ok(());
        };
        let (action, reason) = match &verdict.step {
            Step::Leave => return Ok(()),
            Step::Update(update) => (action(claim, verdict, update, proof), verdict.fate.name()),
            Step::Delete => (Action::delete(proof), SCALED_AWAY),
        };
        let applied = self
            .apply
            .perform(NAME, &member.target(), action, reason)
            .await;
        if applied.written() {
            self.caches.claims.mark_stale(name, claim);
        }
        applied.settled()
    }

    /// Tells what is news.
    fn tell(&self, name: &ObjectName, judged: &Judged) {
        let verdicts = judged.members.iter().zip(&judged.verdicts);
        let announced = verdicts.filter_map(|(member, verdict)| {
            let announcement = announcement(name, member, verdict.fate)?;
            let cause = (member.name.name.clone(), announcement.reason);
            Some((cause, announcement))
        });
        let mut announced: HashMap<_, _> = announced.collect();
        let causes = announced.keys().cloned().collect();
        let news = self.events.news(name, &judged.set.uid, causes);
        announced.retain(|cause, _| news.contains(cause));
        for announcement in announced.into_values() {
            let regarding = Regarding {
                kind: Kind::StatefulSet,
                name: name.clone(),
                uid: judged.set.uid.clone(),
            };
            let (events, name) = (self.events.clone(), name.clone());
            self.apply
                .announce(regarding, announcement, move || events.forget(&name));
        }
    }
}

/// Why a claim is deleted by us: log field and metric label.
const SCALED_AWAY: &str = "ScaledAway";

impl PvcRetentionReconciler {
    /// The set's claims, and what becomes of each by the watches. Nothing where the set is not managed.
    fn look(&self, name: &ObjectName) -> Option<Judged> {
        let set = self.caches.sets.read().get(name)?;
        let cached = managed(StatefulSet::clone(&set), None)?;
        let members = self.caches.members(name);
        Some(cached.judge(name, members, &self.caches.pods.read()))
    }

    /// Neither the cached pods nor their absence can have a claim deleted here, so they are not read live.
    async fn rescue(&self, name: &ObjectName) -> Result<(), Retry> {
        let Some(cached) = self.look(name) else {
            return Ok(());
        };
        if cached.rescues().next().is_none() {
            return Ok(());
        }
        let rivals = Rivals::read(&self.live_sets, name, &cached.members).await?;
        let Some(live) = self.live(name, &cached).await? else {
            return Ok(());
        };
        let judged = {
            let pods = self.caches.pods.read();
            let own = rivals.leave(name, &live.set, &cached.members, &pods);
            live.judge(name, own, &pods)
        };
        self.act(&judged, judged.rescues()).await
    }

    async fn follow_policy(&self, name: &ObjectName) -> Result<(), Retry> {
        if self.caches.sets.read().get(name).is_none() {
            self.events.forget(name);
        }
        let Some(mut judged) = self.look(name) else {
            return Ok(());
        };
        if judged.others().next().is_some() {
            let Some(confirmed) = self.confirm(name, &judged).await? else {
                return Ok(());
            };
            judged = confirmed;
        }
        let acted = self.act(&judged, judged.others()).await;
        self.tell(name, &judged);
        acted
    }
}

impl Reconcile for PvcRetentionReconciler {
    const COMPONENT: &'static str = NAME;
    type Key = Subject;

    fn candidates(&self) -> Vec<Subject> {
        let sets = self.caches.sets.read().names_where(|_| true);
        sets.iter().flat_map(Subject::both).collect()
    }

    async fn reconcile(&self, subject: &Subject) -> Result<(), Retry> {
        match subject {
            Subject::Rescue(set) => self.rescue(set).await,
            Subject::Policy(set) => self.follow_policy(set).await,
        }
    }
}
