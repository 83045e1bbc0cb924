//! Publishes an Event on each claim that has been held for ten seconds after its deletion. The
//! Event names the holder, such as a pod. Another Event on the claim follows only when the cause, a
//! [`Code`], changes.

use super::{metrics::deleted, reasons::CLAIM_HELD, warn::users};
use crate::{
    causes::{self, Code, FinishedPods, NamedPod, Object},
    clock::Clock,
    cluster::{Apply, EventContent, EventDeduplicator, Feed, Leadership, NOTE_LIMIT, Regarding},
    hashing::HashSet,
    objects::{Claim, Kind, ObjectName, Pod},
};
use parking_lot::Mutex;
use std::{sync::Arc, time::Duration};
use tokio_util::sync::CancellationToken;

/// Interval between two evaluations of all claims that are held while being deleted.
const PERIOD: Duration = Duration::from_secs(5);
/// Time in seconds after its deletion before a held claim is reported: a claim that disappears soon
/// after its pod needs no Event.
const REPORT_DELAY_SECONDS: i64 = 10;
/// Maximum number of Events per evaluation. If ten thousand claims are held, later evaluations
/// report the remaining claims. The API server may refuse some Events at each attempt, for example
/// because of a quota, so each evaluation continues after the last reported claim.
const AT_ONCE: usize = 50;

/// Publishes Events on claims that are held while being deleted. It reads only the watches.
pub struct HeldClaimReporter {
    /// Watch of all claims. Those that are being deleted are evaluated.
    pub claims: Arc<Feed<Claim>>,
    /// Watch of all pods with claims.
    pub pods: Arc<Feed<Pod>>,
    /// Publishes the Events.
    pub apply: Arc<Apply>,
    /// The leadership of this replica: only the leader publishes Events.
    pub leadership: Leadership,
    /// Measures for how long a claim has been terminating.
    pub clock: Clock,
    /// Whether finished pods hold claims.
    pub finished_pods: FinishedPods,
    /// The causes that Events have already reported, by claim.
    pub events: Arc<EventDeduplicator<ObjectName, Code>>,
    /// The claim that was reported last. The next evaluation begins after it.
    pub last: Mutex<ObjectName>,
}

impl HeldClaimReporter {
    /// Evaluates the held claims periodically, until `stop`.
    pub async fn run(self, stop: CancellationToken) {
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                () = tokio::time::sleep(PERIOD) => self.evaluate(self.clock.timestamp().as_second()),
            }
        }
    }

    /// Evaluates all held claims at `now`, in seconds since 1970. Nothing is evaluated before the
    /// watches are complete: an incomplete index would show a claim that is in use as unused.
    pub(super) fn evaluate(&self, now: i64) {
        let synced = self.claims.is_synced() && self.pods.is_synced();
        if !synced || !self.leadership.holds() {
            return;
        }
        let mut deleted = deleted(&self.claims);
        deleted.sort_by(|(one, _), (other, _)| one.cmp(other));
        let there: HashSet<&ObjectName> = deleted.iter().map(|(name, _)| name).collect();
        self.events.retain(|name| there.contains(name));
        let old = |(_, claim): &&(ObjectName, Arc<Claim>)| {
            now - claim.rare.deleted >= REPORT_DELAY_SECONDS
        };
        let excludes =
            |namespace: &str| self.apply.excludes(Kind::PersistentVolumeClaim, namespace);
        let mut last = self.last.lock();
        let (before, after) = deleted.split_at(deleted.partition_point(|(name, _)| *name <= *last));
        let due = after.iter().chain(before).filter(old);
        let due = due.filter(|(name, _)| !excludes(&name.namespace));
        let new_causes = due.filter_map(|(name, claim)| {
            let code = self.new_causes(name, claim)?;
            Some((name, claim, code))
        });
        for (name, claim, code) in new_causes.take(AT_ONCE) {
            *last = name.clone();
            self.publish(name, claim, code);
        }
    }

    /// Returns the cause that holds the claim, and records it as reported. None if it is recorded
    /// already, or if nothing but a finalizer keeps the claim that Volume Warden is about to
    /// remove.
    fn new_causes(&self, name: &ObjectName, claim: &Claim) -> Option<Code> {
        let pods = self.pods.read();
        let users = pods.referrers(name).map(|pod| &**pod);
        let code = causes::claim_code(&name.name, claim, users, self.finished_pods);
        drop(pods);
        let causes = code.filter(|code| code.lasts()).into_iter().collect();
        let new_causes = self.events.new_causes(name, &claim.uid, causes);
        new_causes.into_iter().next()
    }

    fn publish(&self, name: &ObjectName, claim: &Claim, code: Code) {
        let users = users(&self.pods, name);
        let named: Vec<NamedPod<'_>> = users.iter().map(|(name, pod)| (name, &**pod)).collect();
        let holders = causes::claim_holders(&name.name, claim, &named, self.finished_pods);
        // The pods may have changed since the cause was evaluated. Then the next evaluation reports
        // the new cause.
        let Some(holder) = holders.first().filter(|holder| holder.code() == code) else {
            return self.events.forget(name);
        };
        let cause = causes::describe(&Object::claim(&name.namespace, &name.name), holder);
        let event_content = EventContent {
            reason: CLAIM_HELD,
            action: CLAIM_HELD,
            warning: false,
            note: causes::note(&cause, NOTE_LIMIT),
            related: None,
        };
        let postpone = self.events.postponing(name, &code);
        self.apply
            .publish_event_or(Regarding::of(name, claim), event_content, postpone);
    }
}
