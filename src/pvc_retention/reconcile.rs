//! The background door: a set is looked at as a whole, so that its claims share one live read of it, however many they are.

use super::{
    NAME, census,
    known::{Known, Member, judge, pod_name},
    patch::changes,
    rule::{Fate, Step, Verdict},
    told::Told,
    wake,
};
use crate::{
    cluster::{
        Action, Announcement, Apply, LiveGet, Reconcile, Retry, SharedList, Target, WorkQueue,
    },
    objects::{Kind, ObjectName, Pod, StatefulSet, stateful_set::Retention},
    telemetry::Metrics,
};
use futures::future::join_all;
use std::{sync::Arc, time::Duration};

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
    pub told: Told,
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

    /// As the API server knows set and pods right now.
    async fn confirm(
        &self,
        name: &ObjectName,
        members: &[Member],
    ) -> Result<Option<Judged>, Retry> {
        let live = self.live_sets.get(name, READ_LIMIT).await;
        let live = live.map_err(|error| Retry(format!("the set could not be read: {error}")))?;
        // If it is gone or going, the watch will tell.
        let Some((set, retention)) = live.and_then(managed) else {
            return Ok(None);
        };
        let verdicts = judge(name, &set, retention, members, &self.known.pods.read());
        if !verdicts.iter().any(Verdict::rests_on_pods) {
            return Ok(Some(Judged { set, verdicts }));
        }
        let pods = self.live_pods.list(&name.namespace).await;
        let pods = pods.map_err(|error| Retry(format!("pods could not be listed: {error}")))?;
        let verdicts = judge(name, &set, retention, members, &pods);
        Ok(Some(Judged { set, verdicts }))
    }

    async fn act(
        &self,
        set: &StatefulSet,
        member: &Member,
        verdict: &Verdict,
    ) -> Result<(), Retry> {
        let (claim, name) = (&member.claim, &member.name);
        let (action, reason) = match &verdict.step {
            _ if member.outdated => return Ok(()),
            Step::Leave => return Ok(()),
            Step::Update(update) => {
                let changes = changes(claim, &set.uid, update);
                (Action::UpdateOwnerReferences(changes), verdict.fate.name())
            }
            Step::Delete => (Action::Delete, SCALED_AWAY),
        };
        let target = Target {
            kind: Kind::PersistentVolumeClaim,
            name,
            uid: &claim.uid,
            resource_version: Some(&claim.resource_version),
            finalizers: &claim.finalizers,
        };
        let applied = self.apply.perform(NAME, &target, action, reason).await;
        if applied.written() {
            self.known.claims.outdate(name, claim);
        }
        applied.settled()
    }

    async fn tell(
        &self,
        name: &ObjectName,
        set: &StatefulSet,
        members: &[Member],
        verdicts: &[Verdict],
    ) {
        let judged = members.iter().zip(verdicts);
        let causes = judged
            .filter(|(_, verdict)| told_of(verdict.fate))
            .map(|(member, verdict)| (member.name.name.clone(), verdict.fate.name()));
        let news = self.told.news(name, &set.uid, causes.collect());
        for (member, verdict) in members.iter().zip(verdicts) {
            if news.contains(&(member.name.name.clone(), verdict.fate.name())) {
                let announcement = announcement(name, member, verdict.fate);
                self.apply
                    .announce(&regarding(name, set), &announcement)
                    .await;
            }
        }
    }
}

/// Why a claim is deleted by us: log field and metric label.
const SCALED_AWAY: &str = "ScaledAway";

/// A set as it was judged, and what becomes of each of its claims.
struct Judged {
    set: StatefulSet,
    verdicts: Vec<Verdict>,
}

/// A set that is being deleted has its claims seen to by the garbage collector; one without a policy is nobody's.
fn managed(set: StatefulSet) -> Option<(StatefulSet, Retention)> {
    let retention = set.retention.filter(|_| !set.deleting)?;
    Some((set, retention))
}

impl Reconcile for PvcRetention {
    const COMPONENT: &'static str = NAME;

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
        let mut judged = Judged { set, verdicts };
        let work = |(member, verdict): (&Member, &Verdict)| {
            !member.outdated && verdict.step != Step::Leave
        };
        if members.iter().zip(&judged.verdicts).any(work) {
            let Some(confirmed) = self.confirm(name, &members).await? else {
                return Ok(());
            };
            judged = confirmed;
        }
        let Judged { set, verdicts } = &judged;
        let acts = members
            .iter()
            .zip(verdicts)
            .map(|(member, verdict)| self.act(set, member, verdict));
        let results = join_all(acts).await;
        self.tell(name, set, &members, verdicts).await;
        results.into_iter().collect()
    }
}

fn told_of(fate: Fate) -> bool {
    match fate {
        Fate::ConflictingController | Fate::ClaimKept | Fate::ClaimStale => true,
        Fate::Kept | Fate::GoesWithSet | Fate::GoesWithPod | Fate::Stale | Fate::Terminating => {
            false
        }
    }
}

fn announcement(set: &ObjectName, member: &Member, fate: Fate) -> Announcement {
    let (claim, pod) = (&member.name.name, pod_name(&set.name, member.ordinal));
    let note = match fate {
        Fate::ConflictingController => {
            format!(
                "claim \"{claim}\" is controlled by somebody else, so the retention policy is not applied to it"
            )
        }
        Fate::ClaimStale => {
            format!(
                "pod \"{pod}\" cannot be created before claim \"{claim}\", which is being deleted, is gone"
            )
        }
        _ => format!(
            "claim \"{claim}\" is out of range and has no pod, but it is kept: nothing says that whenScaled was Delete while it was in \
             range. Delete it by hand if it is not for later"
        ),
    };
    Announcement {
        reason: fate.name(),
        action: fate.name(),
        warning: fate != Fate::ClaimKept,
        note,
    }
}

fn regarding<'a>(name: &'a ObjectName, set: &'a StatefulSet) -> Target<'a> {
    Target {
        kind: Kind::StatefulSet,
        name,
        uid: &set.uid,
        resource_version: None,
        finalizers: &[],
    }
}
