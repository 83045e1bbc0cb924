//! The background door: a set is looked at as a whole, so that its claims share one live read of it, however many they are.

use super::{
    NAME, census,
    known::{Known, Member, judge},
    patch::changes,
    rule::{Step, Verdict},
    told::{Told, announcement},
    wake,
};
use crate::{
    cluster::{Action, Apply, LiveGet, Reconcile, Regarding, Retry, SharedList, Store, WorkQueue},
    objects::{Kind, ObjectName, Pod, StatefulSet, stateful_set::Retention},
    telemetry::Metrics,
};
use futures::future::join_all;
use std::{collections::HashMap, sync::Arc, time::Duration};
use tokio::time::Instant;

/// For the one read of a set.
const READ_LIMIT: Duration = Duration::from_secs(10);

/// What the reconciler works with.
pub struct PvcRetention {
    /// What the watches told.
    pub known: Known,
    /// One set, live.
    pub live_sets: Arc<LiveGet<StatefulSet>>,
    /// Pods, live.
    pub live_pods: Arc<SharedList<Pod>>,
    /// The writer.
    pub apply: Arc<Apply>,
    /// What users have been told.
    pub told: Arc<Told>,
}

impl PvcRetention {
    /// Puts a set in line whenever something happened that may change the fate of its claims.
    pub fn listen(&self, queue: &Arc<WorkQueue<ObjectName>>) {
        wake::listen(&self.known, queue);
    }

    /// Has sets and claims counted at every scrape.
    pub fn count(&self, metrics: &Metrics) {
        let known = self.known.clone();
        metrics.before_scrape(move |metrics| census::count(&known, metrics));
    }

    /// As the API server knows pods and set right now, where `cached` is what the watches make one think.
    ///
    /// The set is read last: a claim is deleted because the set does not want it, so nothing that takes long may lie in between. If
    /// a pod is created after the pods were read, its ordinal is wanted again, and the set read afterwards says so.
    async fn confirm(
        &self,
        name: &ObjectName,
        members: &[Member],
        cached: &Judged,
    ) -> Result<Option<Judged>, Retry> {
        let mut rests_on_pods = cached.verdicts.iter().any(Verdict::rests_on_pods);
        loop {
            let pods = match rests_on_pods {
                true => Some(self.pods(name).await?),
                false => None,
            };
            let decided = Some(Instant::now());
            let live = self.set(name).await?.and_then(managed);
            // If it is gone, going or another one, the watch will tell.
            let Some((set, retention)) = live.filter(|(set, _)| set.uid == cached.set.uid) else {
                return Ok(None);
            };
            let verdicts = match &pods {
                Some(pods) => judge(name, &set, retention, members, pods),
                None => judge(name, &set, retention, members, &self.known.pods.read()),
            };
            rests_on_pods = verdicts.iter().any(Verdict::rests_on_pods);
            if pods.is_some() || !rests_on_pods {
                return Ok(Some(Judged {
                    set,
                    verdicts,
                    decided,
                }));
            }
        }
    }

    async fn set(&self, name: &ObjectName) -> Result<Option<StatefulSet>, Retry> {
        let live = self.live_sets.get(name, READ_LIMIT).await;
        live.map_err(|error| Retry::new(format!("the set could not be read: {error}")))
    }

    async fn pods(&self, name: &ObjectName) -> Result<Arc<Store<Pod>>, Retry> {
        let live = self.live_pods.list(&name.namespace).await;
        live.map_err(|error| Retry::new(format!("pods could not be listed: {error}")))
    }

    async fn act(&self, judged: &Judged, member: &Member, verdict: &Verdict) -> Result<(), Retry> {
        let (claim, name) = (&member.claim, &member.name);
        let (action, reason) = match &verdict.step {
            _ if member.outdated => return Ok(()),
            Step::Leave => return Ok(()),
            Step::Update(update) => {
                let changes = changes(claim, update);
                (Action::UpdateOwnerReferences(changes), verdict.fate.name())
            }
            Step::Delete => (Action::Delete, SCALED_AWAY),
        };
        let applied = self
            .apply
            .perform(NAME, &member.target(judged.decided), action, reason)
            .await;
        if applied.written() {
            self.known.claims.outdate(name, claim);
        }
        applied.settled()
    }

    /// Tells what is news.
    fn tell(&self, name: &ObjectName, judged: &Judged, members: &[Member]) {
        let verdicts = members.iter().zip(&judged.verdicts);
        let announced = verdicts.filter_map(|(member, verdict)| {
            let announcement = announcement(name, member, verdict.fate)?;
            let cause = (member.name.name.clone(), announcement.reason);
            Some((cause, announcement))
        });
        let mut announced: HashMap<_, _> = announced.collect();
        let causes = announced.keys().cloned().collect();
        let news = self.told.news(name, &judged.set.uid, causes);
        announced.retain(|cause, _| news.contains(cause));
        for announcement in announced.into_values() {
            let regarding = Regarding {
                kind: Kind::StatefulSet,
                name: name.clone(),
                uid: judged.set.uid.clone(),
            };
            let (told, name) = (self.told.clone(), name.clone());
            self.apply
                .announce(regarding, announcement, move || told.forget(&name));
        }
    }
}

/// Why a claim is deleted by us: log field and metric label.
const SCALED_AWAY: &str = "ScaledAway";

/// A set as it was judged, and what becomes of each of its claims.
struct Judged {
    set: StatefulSet,
    verdicts: Vec<Verdict>,
    /// When the set was read live, if it was.
    decided: Option<Instant>,
}

/// A set that is being deleted has its claims seen to by the garbage collector; one without a policy is nobody's.
fn managed(set: StatefulSet) -> Option<(StatefulSet, Retention)> {
    let retention = set.retention.filter(|_| !set.deleting)?;
    Some((set, retention))
}

impl Reconcile for PvcRetention {
    const COMPONENT: &'static str = NAME;
    type Key = ObjectName;

    fn candidates(&self) -> Vec<ObjectName> {
        self.known.sets.read().names_where(|_| true)
    }

    async fn reconcile(&self, name: &ObjectName) -> Result<(), Retry> {
        let Some(set) = self.known.sets.read().last_told(name) else {
            self.told.forget(name);
            return Ok(());
        };
        let Some((set, retention)) = managed(StatefulSet::clone(&set)) else {
            return Ok(());
        };
        let members = self.known.members(name);
        let verdicts = judge(name, &set, retention, &members, &self.known.pods.read());
        let mut judged = Judged {
            set,
            verdicts,
            decided: None,
        };
        let work = |(member, verdict): (&Member, &Verdict)| {
            !member.outdated && verdict.step != Step::Leave
        };
        if members.iter().zip(&judged.verdicts).any(work) {
            let Some(confirmed) = self.confirm(name, &members, &judged).await? else {
                return Ok(());
            };
            judged = confirmed;
        }
        let verdicts = members.iter().zip(&judged.verdicts);
        let acts = verdicts.map(|(member, verdict)| self.act(&judged, member, verdict));
        let results = join_all(acts).await;
        self.tell(name, &judged, &members);
        results.into_iter().collect()
    }
}
