//! Finds out whether kube-controller-manager writes the condition `Unused`, by what it writes: no
//! API shows its feature gates and controllers.

use crate::objects::{Claim, ObjectName, Unused};
use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::time::Instant;

/// For how long a transition may stay unwritten before Volume Warden writes the condition again.
pub(super) const TAKEOVER_DELAY: Duration = Duration::from_secs(60);

/// Whether another writer, kube-controller-manager, writes the condition.
///
/// # Guarantees
/// The last observed write of a condition decides. Before the first one, the newest condition of
/// all claims decides: the writer that wrote it was the last to work.
#[derive(Debug, Default)]
pub struct InTreeWriter(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// Whether the other writer works; none before any evidence.
    writes: Option<bool>,
    /// Transitions that the other writer has not written, and since when they are known.
    unwritten: HashMap<ObjectName, Instant>,
}

impl InTreeWriter {
    /// Records a change of a claim that the watch has delivered.
    pub fn observe(&self, name: &ObjectName, old: &Claim, new: &Claim) {
        if let Some(condition) = new.unused.filter(|_| old.unused != new.unused) {
            let mut state = self.lock();
            state.writes = Some(!condition.own);
            state.unwritten.remove(name);
        }
    }

    /// Decides by the conditions of all claims who writes, unless a write was observed before.
    pub fn assess<'a>(&self, claims: impl IntoIterator<Item = &'a Claim>) {
        let mut state = self.lock();
        if state.writes.is_none() {
            let conditions = claims.into_iter().filter_map(|claim| claim.unused);
            let newest = conditions.max_by_key(|each| (each.since, !each.own));
            state.writes = Some(newest.is_some_and(|Unused { own, .. }| !own));
        }
    }

    /// Returns for how long to wait for the other writer to write the condition of this claim; none
    /// if the other writer does not write.
    pub fn wait(&self, name: &ObjectName) -> Option<Duration> {
        let mut state = self.lock();
        if state.writes != Some(true) {
            return None;
        }
        let since = state.unwritten.entry(name.clone());
        let since = since.or_insert_with(Instant::now);
        // Its reconcile was dropped: it is of an earlier time as the leader.
        if since.elapsed() > 2 * TAKEOVER_DELAY {
            *since = Instant::now();
        }
        Some(TAKEOVER_DELAY.saturating_sub(since.elapsed()))
    }

    /// Stops waiting for this claim: its condition is right, or it needs none.
    pub fn settle(&self, name: &ObjectName) {
        self.lock().unwritten.remove(name);
    }

    /// Makes Volume Warden the writer: a transition stayed unwritten, so the other writer no longer
    /// works.
    pub fn take_over(&self) {
        *self.lock() = State {
            writes: Some(false),
            unwritten: HashMap::new(),
        };
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
