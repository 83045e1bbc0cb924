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
pub(super) const PATIENCE: Duration = Duration::from_secs(60);

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
    pub fn observe(&self, old: &Claim, new: &Claim) {
        if let Some(condition) = new.unused.filter(|_| old.unused != new.unused) {
            self.lock().writes = Some(!condition.applied_by_us);
        }
    }

    /// Decides by the conditions of all claims who writes, unless a write was observed before.
    pub fn assess<'a>(&self, claims: impl IntoIterator<Item = &'a Claim>) {
        let mut state = self.lock();
        if state.writes.is_none() {
            let conditions = claims.into_iter().filter_map(|claim| claim.unused);
            let newest = conditions.max_by_key(|each| (each.since, !each.applied_by_us));
            state.writes = Some(newest.is_some_and(|Unused { applied_by_us, .. }| !applied_by_us));
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
        Some(PATIENCE.saturating_sub(since.elapsed()))
    }

    /// Records that the condition of this claim is right, or that the claim needs none.
    pub fn written(&self, name: &ObjectName) {
        self.lock().unwritten.remove(name);
    }

    /// Records that a transition stayed unwritten: the other writer no longer works.
    pub fn ended(&self) {
        *self.lock() = State {
            writes: Some(false),
            unwritten: HashMap::new(),
        };
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
