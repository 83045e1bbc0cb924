//! A fake storage backend.

use crate::{
    backend::{Backend, Deletion, Failure, Listed, Listing, Sentence},
    hashing::HashSet,
};
use futures::future::BoxFuture;
use parking_lot::{Mutex, MutexGuard};
use std::{
    collections::VecDeque,
    time::{Duration, SystemTime},
};
use tokio::time::sleep;

#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) namespaces: Vec<Listed>,
    pub(super) full: HashSet<String>,
    /// Failures of the next lists; a list without a failure succeeds.
    pub(super) lists_fail: VecDeque<Failure>,
    /// Answers to the next deletions.
    pub(super) answers: VecDeque<Result<Deletion, Failure>>,
    /// Whether another client removes each namespace just before its deletion.
    pub(super) is_shared: bool,
    pub(super) panics: usize,
    /// Number of deletions that hang.
    pub(super) hangs: usize,
    pub(super) lists: usize,
    /// Id and version of each deletion.
    pub(super) deletions: Vec<(String, String)>,
    in_flight: usize,
    pub(super) most_in_flight: usize,
}

#[derive(Debug, Default)]
pub(super) struct Storage {
    state: Mutex<State>,
}

impl Storage {
    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    pub(super) fn create(&self, name: &str) {
        self.create_since(name, None);
    }

    pub(super) fn create_since(&self, name: &str, since: Option<SystemTime>) {
        let listed = Listed {
            id: format!("id-{name}"),
            name: name.into(),
            version: "1".into(),
            since,
        };
        self.state().namespaces.push(listed);
    }

    pub(super) fn has(&self, name: &str) -> bool {
        let state = self.state();
        state.namespaces.iter().any(|each| each.name == name)
    }

    pub(super) fn fill(&self, name: &str) {
        self.state().full.insert(name.into());
    }

    pub(super) fn empty(&self, name: &str) {
        self.state().full.remove(name);
    }

    pub(super) fn lists(&self) -> usize {
        self.state().lists
    }

    pub(super) fn deletions(&self) -> usize {
        self.state().deletions.len()
    }

    fn delete_now(&self, namespace: &Listed) -> Result<Deletion, Failure> {
        let mut state = self.state();
        if let Some(answer) = state.answers.pop_front() {
            return answer;
        }
        if state.is_shared {
            state.namespaces.retain(|each| each.id != namespace.id);
        }
        let place = state
            .namespaces
            .iter()
            .position(|each| each.id == namespace.id);
        match place {
            None => Ok(Deletion::NotFound),
            Some(place) if state.namespaces[place].version != namespace.version => {
                Ok(Deletion::Stale)
            }
            Some(_) if state.full.contains(&namespace.name) => {
                Ok(Deletion::NotEmpty(Sentence::new("it has volumes")))
            }
            Some(place) => {
                state.namespaces.remove(place);
                Ok(Deletion::Deleted)
            }
        }
    }
}

impl Backend for Storage {
    fn name(&self) -> &'static str {
        "made-up"
    }

    /// Returns the namespaces at the time of the call, after a delay.
    fn list(&self) -> BoxFuture<'_, Result<Listing, Failure>> {
        Box::pin(async {
            let answer = {
                let mut state = self.state();
                state.lists += 1;
                let panics = state.panics > 0;
                state.panics = state.panics.saturating_sub(1);
                match state.lists_fail.pop_front() {
                    Some(failure) => Err(failure),
                    None if panics => Err(Failure::server("panic")),
                    None => Ok(Listing {
                        namespaces: state.namespaces.clone(),
                        skipped: 0,
                    }),
                }
            };
            sleep(Duration::from_millis(100)).await;
            assert!(
                answer
                    .as_ref()
                    .err()
                    .is_none_or(|why| why.to_string() != "panic"),
                "on purpose"
            );
            answer
        })
    }

    fn delete<'a>(&'a self, namespace: &'a Listed) -> BoxFuture<'a, Result<Deletion, Failure>> {
        Box::pin(async {
            let hangs = {
                let mut state = self.state();
                let call = (namespace.id.clone(), namespace.version.clone());
                state.deletions.push(call);
                state.in_flight += 1;
                state.most_in_flight = state.most_in_flight.max(state.in_flight);
                let hangs = state.hangs > 0;
                state.hangs = state.hangs.saturating_sub(1);
                hangs
            };
            if hangs {
                std::future::pending::<()>().await;
            }
            sleep(Duration::from_millis(100)).await;
            self.state().in_flight -= 1;
            self.delete_now(namespace)
        })
    }
}
