//! The reconciler of pvc-expiry: which live reads a decision needs, and what it writes.

use super::{
    NAME,
    caches::Caches,
    confirm::{Confirmed, Live},
    notices,
    reasons::{EXPIRED, EXPIRING, EXPIRY_CANCELLED, FAILED_ANNOUNCE},
    rule::{Decision, Left, recorded},
    triggers,
};
use crate::{
    cluster::{
        Action, Announcement, Apply, Basis, EventDeduplicator, HourlyLimit, Lane, OnRefusal,
        Reconcile, ReconcileError, Reconciled, Regarding, Requeue, Target, WorkQueue,
    },
    hashing::HashMap,
    objects::{
        Claim, CompactText, Kind, ObjectName,
        expiry::EXPIRES_AT,
        patch::{add, remove},
    },
};
use json_patch::PatchOperation;
use k8s_openapi::jiff::Timestamp;
use serde_json::json;
use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::time::Instant;

/// Maximum delay until a claim that is not due yet is evaluated again.
const LONGEST_WAIT: Duration = Duration::from_secs(6 * 3600);
/// Minimum time between the two live evaluations that precede the deletion of a claim.
const BETWEEN_LOOKS: Duration = Duration::from_secs(60);
/// Age at which the first live evaluation no longer counts: the claim is evaluated twice again.
const LOOK_EXPIRES: Duration = Duration::from_secs(600);
/// Delay until a claim that a workload or a custom resource names is evaluated again. Volume
/// Warden does not watch these objects, so no event reports that one stops naming the claim.
const NAMED_AGAIN: Duration = Duration::from_secs(3600);
/// Maximum age of the read of workloads and custom resources on which an announcement may rest. A
/// deletion always rests on a new read.
const NAMES_AGE: Duration = Duration::from_secs(60);

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
    /// When live reads first showed that a claim is due, by the uid of the claim.
    pub looks: Mutex<HashMap<CompactText, Instant>>,
    /// The causes that Events have already reported, by claim.
    pub reported: Arc<EventDeduplicator<ObjectName, Left>>,
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
        if let Some(what) = self.live.referrers.of(name, since).await?.first() {
            return Ok(named(what));
        }
        let at_text = json!(at.to_string());
        let operation = match claim.annotated {
            true => add(&["annotations", EXPIRES_AT], at_text),
            false => add(&["annotations"], json!({EXPIRES_AT: at_text})),
        };
        let volume = self.caches.volume_of(claim);
        let record = volume.as_ref().and_then(|volume| recorded(volume, claim));
        let event = notices::expiring(name, at, record);
        self.annotate(name, claim, ("AnnounceExpiry", EXPIRING), operation, event)
            .await
    }

    async fn cancel(&self, name: &ObjectName, claim: &Claim) -> Reconciled {
        let (reason, event) = (("CancelExpiry", EXPIRY_CANCELLED), notices::cancelled(name));
        let operation = remove(&["annotations", EXPIRES_AT]);
        self.annotate(name, claim, reason, operation, event).await
    }

    async fn annotate(
        &self,
        name: &ObjectName,
        claim: &Claim,
        (action, reason): (&'static str, &'static str),
        operation: PatchOperation,
        event: Announcement,
    ) -> Reconciled {
        let on_refusal = OnRefusal::new(FAILED_ANNOUNCE);
        let action = Action::patch(
            action,
            Lane::Bulk,
            vec![operation],
            Basis::Object,
            on_refusal,
        );
        let applied = self
            .apply
            .perform(NAME, &target(name, claim), action, reason)
            .await;
        if applied.written() {
            self.apply.announce(regarding(name, claim), event, || {});
        }
        applied.settled()
    }

    /// Evaluates the claim live once, by reading everything that the rule depends on. If the claim
    /// is due, the first such evaluation requests a second one, and the second one deletes the
    /// claim.
    async fn expire(&self, name: &ObjectName, claim: &Claim) -> Reconciled {
        let first = self.first_look(&claim.uid);
        if let Some(rest) = first.and_then(|first| BETWEEN_LOOKS.checked_sub(first.elapsed()))
            && !rest.is_zero()
        {
            return Ok(second_look(rest));
        }
        // A place within the hourly limit is reserved first, so that no more claims are read than
        // can be deleted.
        let slot = match self.limit.reserve() {
            Ok(slot) => slot,
            Err(wait) => return Ok(limited(wait)),
        };
        let (observed, now) = (
            self.caches.observation.since(),
            self.caches.clock.timestamp(),
        );
        let confirmed = self.live.confirm(name, &claim.uid, observed, now).await?;
        if let Some(what) = confirmed.named_by.first() {
            self.forget(&claim.uid);
            self.cancel(name, &confirmed.claim).await?;
            return Ok(named(what));
        }
        let Some(record) = confirmed.record.as_ref().filter(|_| confirmed.is_due()) else {
            self.forget(&claim.uid);
            let why = "a live read shows that the claim does not expire now";
            return Err(ReconcileError::new(why));
        };
        if first.is_none() {
            self.looks().insert(claim.uid.clone(), Instant::now());
            return Ok(second_look(BETWEEN_LOOKS));
        }
        let action = Action::delete(confirmed.proof);
        let target = target(name, &confirmed.claim);
        let applied = self.apply.perform(NAME, &target, action, EXPIRED).await;
        if applied.written() {
            slot.count();
            self.forget(&claim.uid);
            let event = notices::expired(name, record);
            self.apply.announce(regarding(name, claim), event, || {});
        }
        applied.settled()
    }

    /// Returns when a live evaluation first showed that the claim is due; none if that has not
    /// happened in the last ten minutes.
    fn first_look(&self, uid: &CompactText) -> Option<Instant> {
        let mut looks = self.looks();
        looks.retain(|_, first| first.elapsed() < LOOK_EXPIRES);
        looks.get(uid).copied()
    }

    fn forget(&self, uid: &CompactText) {
        self.looks().remove(uid);
    }

    fn looks(&self) -> MutexGuard<'_, HashMap<CompactText, Instant>> {
        self.looks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Confirmed {
    /// Whether the live reads say that the claim expires.
    fn is_due(&self) -> bool {
        self.decision == Decision::Expire
    }
}

impl Reconcile for PvcExpiryReconciler {
    const COMPONENT: &'static str = NAME;
    type Key = ObjectName;

    fn candidates(&self) -> Vec<ObjectName> {
        self.reported
            .retain(|name| self.caches.claim(name).is_some());
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
            return Ok(Requeue::OnEvent);
        };
        if self.caches.excludes(&name.namespace) {
            return Ok(Requeue::OnEvent);
        }
        let decision = self.caches.judge(name, &claim);
        let left = match decision {
            Decision::Leave(left) => Some(left),
            _ => None,
        };
        self.report(name, &claim, left);
        if decision != Decision::Expire {
            self.forget(&claim.uid);
        }
        match decision {
            Decision::Leave(left) => {
                tracing::debug!(component = NAME, object = %name, ?left, "no action");
                Ok(Requeue::OnEvent)
            }
            Decision::Cancel(_) => self.cancel(name, &claim).await,
            Decision::Wait(until) => Ok(wait(self.caches.clock.timestamp(), until)),
            Decision::Announce(at) => self.announce(name, &claim, at).await,
            Decision::Expire => self.expire(name, &claim).await,
        }
    }
}

/// The claim as the target of a write that tests its `resourceVersion`.
fn target<'a>(name: &'a ObjectName, claim: &'a Claim) -> Target<'a> {
    Target {
        resource_version: Some(claim.resource_version.clone()),
        ..Target::new(Kind::PersistentVolumeClaim, name, &claim.uid)
    }
}

/// The claim as the object of an Event.
pub(super) fn regarding(name: &ObjectName, claim: &Claim) -> Regarding {
    Regarding {
        kind: Kind::PersistentVolumeClaim,
        name: name.clone(),
        uid: claim.uid.clone(),
    }
}

fn wait(now: Timestamp, until: Timestamp) -> Requeue {
    let wait = Duration::try_from(until.duration_since(now)).unwrap_or_default();
    // At least a second later, so that the clock has passed `until` when the claim is evaluated
    // again.
    let wait = wait.clamp(Duration::from_secs(1), LONGEST_WAIT);
    Requeue::After(
        wait,
        format!("waiting until {until} to decide again whether the claim expires"),
    )
}

fn second_look(delay: Duration) -> Requeue {
    let why = "waiting for a second live read, which must confirm that the claim expires before it \
        is deleted";
    Requeue::After(delay, why.to_owned())
}

fn limited(delay: Duration) -> Requeue {
    let why = "the claim waits, because the limit --expiry-max-deletions of this hour is reached";
    Requeue::After(delay, why.to_owned())
}

fn named(what: &str) -> Requeue {
    Requeue::After(
        NAMED_AGAIN,
        format!("the claim does not expire, because {what} names it"),
    )
}
