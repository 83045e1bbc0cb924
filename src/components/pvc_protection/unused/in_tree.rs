//! Finds out whether kube-controller-manager writes the condition `Unused`, by what it writes: no
//! API shows its feature gates and controllers.

use crate::{
    hashing::HashMap,
    objects::{Claim, ObjectName, Unused},
};
use parking_lot::Mutex;
use std::time::Duration;
use tokio::time::Instant;

/// For how long kube-controller-manager may leave the condition of a claim outdated before Volume
/// Warden writes conditions again.
pub(super) const TAKEOVER_DELAY: Duration = Duration::from_secs(60);

/// Whether kube-controller-manager, the other writer, writes the condition.
///
/// # Guarantees
/// The last observed write of a condition decides, or a later [`Self::take_over`]. Before the first
/// one, the newest condition of all claims decides: its writer counts as the present one.
#[derive(Debug, Default)]
pub struct InTreeWriter(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// Whether kube-controller-manager writes the condition; none before any evidence.
    writes: Option<bool>,
    /// Claims whose condition kube-controller-manager should have changed and has not, and since
    /// when.
    unwritten: HashMap<ObjectName, Instant>,
}

impl InTreeWriter {
    /// Learns from a change of a claim's condition who writes conditions: the last writer counts.
    /// A user who changes only `managedFields` has not written the condition.
    pub fn observe(&self, name: &ObjectName, old: &Claim, new: &Claim) {
        let content = |claim: &Claim| claim.unused.map(|each| (each.holds, each.since));
        if let Some(condition) = new.unused.filter(|_| content(old) != content(new)) {
            let mut state = self.0.lock();
            state.writes = Some(!condition.own);
            state.unwritten.remove(name);
        }
    }

    /// Decides by the conditions of all claims who writes, unless that was decided before.
    pub fn assess<'a>(&self, claims: impl IntoIterator<Item = &'a Claim>) {
        let mut state = self.0.lock();
        if state.writes.is_none() {
            let conditions = claims.into_iter().filter_map(|claim| claim.unused);
            let newest = conditions.max_by_key(|each| (each.since, !each.own));
            state.writes = Some(newest.is_some_and(|Unused { own, .. }| !own));
        }
    }

    /// Returns how much longer kube-controller-manager may take to write the condition of this
    /// claim; none if it does not write conditions.
    pub fn wait(&self, name: &ObjectName) -> Option<Duration> {
        let mut state = self.0.lock();
        if state.writes != Some(true) {
            return None;
        }
        let since = state.unwritten.entry(name.clone());
        let since = since.or_insert_with(Instant::now);
        // An entry of this age is left from an earlier time as the leader, so the wait begins
        // again.
        if since.elapsed() > 2 * TAKEOVER_DELAY {
            *since = Instant::now();
        }
        Some(TAKEOVER_DELAY.saturating_sub(since.elapsed()))
    }

    /// Stops waiting for kube-controller-manager to write the condition of this claim: the
    /// condition is correct, or the claim needs none.
    pub fn stop_waiting(&self, name: &ObjectName) {
        self.0.lock().unwritten.remove(name);
    }

    /// Makes Volume Warden the writer of conditions, because kube-controller-manager has not
    /// written one in time.
    pub fn take_over(&self) {
        *self.0.lock() = State {
            writes: Some(false),
            unwritten: HashMap::default(),
        };
    }
}
