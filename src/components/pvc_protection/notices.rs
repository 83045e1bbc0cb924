//! What users are told of a claim that does not go: who holds it, once for each cause.

use super::{metrics::deleted, reasons::CLAIM_HELD, warn::users};
use crate::{
    causes::{self, Code, FinishedPods, NamedPod, Object},
    clock::Clock,
    cluster::{Announcement, Apply, EventDeduplicator, Feed, Leadership, Regarding},
    objects::{Claim, Kind, ObjectName, Pod},
};
use std::{collections::HashSet, sync::Arc, time::Duration};
use tokio_util::sync::CancellationToken;

/// How often it is looked who holds what.
const PERIOD: Duration = Duration::from_secs(5);
/// A claim that goes with its pod is nobody's news.
const PATIENCE_SECONDS: i64 = 10;
/// More are not told of at one look: ten thousand claims that are held at once are told of by and by.
const AT_ONCE: usize = 50;

/// Tells of claims that are held, from the watches alone.
pub struct HeldClaimReporter {
    /// All claims, as last told.
    pub claims: Arc<Feed<Claim>>,
    /// All pods with claims, as last told.
    pub pods: Arc<Feed<Pod>>,
    /// The writer.
    pub apply: Arc<Apply>,
    /// Whether to tell.
    pub leadership: Leadership,
    /// For how long a claim has been terminating.
    pub clock: Clock,
    /// Whether finished pods count.
    pub finished_pods: FinishedPods,
    /// By which cause users were told that a claim is held.
    pub events: Arc<EventDeduplicator<ObjectName, Code>>,
}

impl HeldClaimReporter {
    /// Looks again and again, until `stop`.
    pub async fn run(self, stop: CancellationToken) {
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(PERIOD) => self.look(self.clock.timestamp().as_second()),
            }
        }
    }

    /// One look, at that time in seconds since 1970. A half-filled index would take a used claim for an unused one.
    pub(super) fn look(&self, now: i64) {
        let synced = self.claims.is_synced() && self.pods.is_synced();
        if !synced || !self.leadership.holds() {
            return;
        }
        let deleted = deleted(&self.claims);
        let there: HashSet<&ObjectName> = deleted.iter().map(|(name, _)| name).collect();
        self.events.retain(|name| there.contains(name));
        let old = |(_, claim): &&(ObjectName, Arc<Claim>)| now - claim.deleted >= PATIENCE_SECONDS;
        let news = deleted.iter().filter(old).filter_map(|(name, claim)| {
            let code = self.news(name, claim)?;
            Some((name, claim, code))
        });
        for (name, claim, code) in news.take(AT_ONCE) {
            self.tell(name, claim, code);
        }
    }

    /// What holds the claim, unless that was told.
    fn news(&self, name: &ObjectName, claim: &Claim) -> Option<Code> {
        let pods = self.pods.read();
        let users = pods.referrers(name).map(|pod| &**pod);
        let code = causes::claim_code(&name.name, claim, users, self.finished_pods);
        drop(pods);
        let causes = code.filter(|code| code.lasts()).into_iter().collect();
        let news = self.events.news(name, &claim.uid, causes);
        news.into_iter().next()
    }

    fn tell(&self, name: &ObjectName, claim: &Claim, code: Code) {
        let users = users(&self.pods, name);
        let named: Vec<NamedPod<'_>> = users.iter().map(|(name, pod)| (name, &**pod)).collect();
        let holders = causes::claim_holders(&name.name, claim, &named, self.finished_pods);
        let (events, forgotten) = (self.events.clone(), name.clone());
        // The pods may have changed since, by a hair. Then the next look tells.
        let Some(holder) = holders.first().filter(|holder| holder.code() == code) else {
            return events.forget(name);
        };
        let cause = causes::describe(&Object::claim(&name.namespace, &name.name), holder);
        let announcement = Announcement {
            reason: CLAIM_HELD,
            action: CLAIM_HELD,
            warning: false,
            note: causes::note(&cause),
            related: None,
        };
        let regarding = Regarding {
            kind: Kind::PersistentVolumeClaim,
            name: name.clone(),
            uid: claim.uid.clone(),
        };
        let otherwise = move || events.forget(&forgotten);
        self.apply.announce(regarding, announcement, otherwise);
    }
}
