//! Remembers the namespaces that could not be removed from the backend yet: why, since when, and
//! the time of the next attempt.
//!
//! The records are kept in memory only. After a restart, a collection finds these namespaces again.

use super::{reason::Reason, reasons, schedule};
use crate::{
    hashing::{HashMap, HashSet},
    objects::ObjectName,
};
use k8s_openapi::jiff::Timestamp;
use parking_lot::Mutex;
use std::time::Duration;
use strum::VariantArray as _;
use tokio::time::Instant;

/// How namespace-gc found a namespace that should be deleted from the backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The watch reported that Kubernetes has deleted the namespace.
    RecentlyDeleted,
    /// A collection found the namespace.
    Collected,
}

impl Origin {
    /// The reason of the deletion in metrics and logs.
    pub fn name(self) -> &'static str {
        match self {
            Self::RecentlyDeleted => reasons::RECENTLY_DELETED,
            Self::Collected => reasons::ORPHAN,
        }
    }
}

#[derive(Debug)]
struct Wait {
    origin: Origin,
    reason: Reason,
    /// When the removal of the namespace first failed.
    since: Timestamp,
    /// Number of failures for each reason. That of one reason does not reset another one: if two
    /// causes alternate, the delays must still grow.
    failures: HashMap<Reason, u32>,
    attempts: u32,
    due: Instant,
    /// Whether the record had the name: the collection that found the namespace read it there, or
    /// an earlier retry did.
    recorded: bool,
    /// Reasons for which an Event was published.
    published: HashSet<Reason>,
}

/// The namespaces that wait for the next attempt to remove them.
#[derive(Debug, Default)]
pub struct Waiting {
    namespaces: Mutex<HashMap<ObjectName, Wait>>,
    /// Namespaces whose deletion the watch reported, and for which no attempt has begun.
    reported: Mutex<HashSet<ObjectName>>,
}

/// The result of a failed removal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waits {
    /// Time until the next attempt to remove the namespace.
    pub delay: Duration,
    /// Number of attempts to remove the namespace so far.
    pub attempts: u32,
    /// Whether an Event is to be published: none was yet for this namespace and reason.
    pub is_new_reason: bool,
}

impl Waiting {
    /// Records that the removal of a namespace failed at this time, and schedules the next attempt.
    pub fn failed(
        &self,
        name: &ObjectName,
        reason: Reason,
        origin: Origin,
        at: Timestamp,
    ) -> Waits {
        let (now, mut namespaces) = (Instant::now(), self.namespaces.lock());
        let wait = namespaces.entry(name.clone()).or_insert_with(|| Wait {
            origin,
            reason,
            since: at,
            failures: HashMap::default(),
            attempts: 0,
            due: now,
            recorded: false,
            published: HashSet::default(),
        });
        wait.recorded |= origin == Origin::Collected;
        wait.reason = reason;
        let failures = wait.failures.entry(reason).or_default();
        *failures = failures.saturating_add(1);
        let delay = schedule::delay(reason, *failures, schedule::chance());
        wait.attempts = wait.attempts.saturating_add(1);
        wait.due = now + delay;
        Waits {
            delay,
            attempts: wait.attempts,
            is_new_reason: wait.published.insert(reason),
        }
    }

    /// Records that the Event for this reason was not published, so that the next failure for it
    /// publishes one.
    pub fn mark_unpublished(&self, name: &ObjectName, reason: Reason) {
        if let Some(wait) = self.namespaces.lock().get_mut(name) {
            wait.published.remove(&reason);
        }
    }

    /// Postpones the next attempt to remove the namespace until `delay` has passed. A namespace
    /// that does not wait is not affected.
    pub fn put_off(&self, name: &ObjectName, delay: Duration) {
        if let Some(wait) = self.namespaces.lock().get_mut(name) {
            wait.due = Instant::now() + delay;
        }
    }

    /// Records that the watch reported the deletion of the namespace.
    pub fn report(&self, name: &ObjectName) {
        self.reported.lock().insert(name.clone());
    }

    /// Whether the watch reported the deletion of the namespace since the last attempt began. The
    /// next call returns false, unless the watch reports another deletion.
    pub fn take_reported(&self, name: &ObjectName) -> bool {
        self.reported.lock().remove(name)
    }

    /// Records that a retry found the name in the record.
    pub fn mark_recorded(&self, name: &ObjectName) {
        if let Some(wait) = self.namespaces.lock().get_mut(name) {
            wait.recorded = true;
        }
    }

    /// Whether a retry may delete the namespace only if the record has its name: the record had it
    /// before, or the namespace no longer waits, because Kubernetes has one of that name again.
    pub fn needs_record(&self, name: &ObjectName) -> bool {
        self.namespaces
            .lock()
            .get(name)
            .is_none_or(|wait| wait.recorded)
    }

    /// Removes the records of all namespaces, because this replica no longer leads.
    pub fn clear(&self) {
        self.namespaces.lock().clear();
        self.reported.lock().clear();
    }

    /// Removes the record of a namespace that needs no further attempt.
    pub fn forget(&self, name: &ObjectName) {
        self.namespaces.lock().remove(name);
    }

    /// Time until the next attempt to remove the namespace; none if the attempt is due or the
    /// namespace does not wait.
    pub fn left(&self, name: &ObjectName) -> Option<Duration> {
        let namespaces = self.namespaces.lock();
        let left = namespaces
            .get(name)?
            .due
            .checked_duration_since(Instant::now())?;
        (!left.is_zero()).then_some(left)
    }

    /// How the namespace was found; none if it does not wait for a removal.
    pub fn origin(&self, name: &ObjectName) -> Option<Origin> {
        self.namespaces.lock().get(name).map(|wait| wait.origin)
    }

    /// The namespaces for which the next attempt to remove them is due.
    pub fn due(&self) -> Vec<ObjectName> {
        let now = Instant::now();
        let namespaces = self.namespaces.lock();
        let due = namespaces.iter().filter(|(_, wait)| wait.due <= now);
        due.map(|(name, _)| name.clone()).collect()
    }

    /// The names of all namespaces that wait for their removal.
    pub fn names(&self) -> HashSet<String> {
        self.namespaces
            .lock()
            .keys()
            .map(|name| name.name.to_string())
            .collect()
    }

    /// For each reason, the number of namespaces that wait for their removal, and since when the
    /// first of them waits.
    pub fn count(&self) -> HashMap<Reason, (i64, Option<Timestamp>)> {
        let mut counts: HashMap<_, _> = Reason::VARIANTS
            .iter()
            .map(|reason| (*reason, Default::default()))
            .collect();
        #[expect(
            clippy::iter_over_hash_type,
            reason = "a sum and a minimum do not depend on the order"
        )]
        for wait in self.namespaces.lock().values() {
            let (count, oldest): &mut (i64, Option<Timestamp>) =
                counts.entry(wait.reason).or_default();
            *count += 1;
            *oldest = Some(oldest.map_or(wait.since, |oldest| oldest.min(wait.since)));
        }
        counts
    }
}
