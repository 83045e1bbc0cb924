//! The cache of a simulated controller: the objects as they were at an earlier moment.

use parking_lot::Mutex;
use serde_json::Value;
use std::{collections::BTreeMap, sync::Arc};
use tokio::sync::watch;
use volume_warden_apiserver_model::Change;

/// A change with the virtual millisecond in which it was made.
struct Entry {
    at: u64,
    plural: &'static str,
    key: (String, String),
    after: Option<Arc<Value>>,
}

/// All changes of a history.
pub struct Log {
    entries: Mutex<Vec<Entry>>,
    length: watch::Sender<usize>,
}

impl Default for Log {
    fn default() -> Self {
        Self {
            entries: Mutex::default(),
            length: watch::Sender::new(0),
        }
    }
}

impl Log {
    /// Adds a change that was made at this virtual millisecond.
    pub fn add(&self, at: u64, change: &Change) {
        // The Lease is renewed all the time, and no simulated controller reads it.
        if change.plural == "leases" || change.plural == "events" {
            return;
        }
        let mut entries = self.entries.lock();
        entries.push(Entry {
            at,
            plural: change.plural,
            key: (change.namespace.clone(), change.name.clone()),
            after: change.after.clone(),
        });
        self.length.send_replace(entries.len());
    }

    /// Returns the number of changes, as a value that can be waited for.
    pub fn length(&self) -> watch::Receiver<usize> {
        self.length.subscribe()
    }
}

type Objects = BTreeMap<(String, String), Arc<Value>>;

/// The cache of a controller.
#[derive(Default)]
pub struct View {
    kinds: BTreeMap<&'static str, Objects>,
    position: usize,
}

impl View {
    /// Applies all changes up to this virtual millisecond. Returns whether later ones exist.
    pub fn advance(&mut self, log: &Log, until: u64) -> bool {
        let entries = log.entries.lock();
        for entry in entries.iter().skip(self.position) {
            if entry.at > until {
                return true;
            }
            self.position += 1;
            let objects = self.kinds.entry(entry.plural).or_default();
            match &entry.after {
                Some(object) => drop(objects.insert(entry.key.clone(), object.clone())),
                None => drop(objects.remove(&entry.key)),
            }
        }
        false
    }

    /// Returns whether the log has changes of these kinds that are not applied yet.
    pub fn misses(&self, log: &Log, kinds: &[&str]) -> bool {
        let entries = log.entries.lock();
        let mut missed = entries.iter().skip(self.position);
        missed.any(|entry| kinds.contains(&entry.plural))
    }

    /// Returns the cached object.
    pub fn get(&self, plural: &str, namespace: &str, name: &str) -> Option<&Arc<Value>> {
        self.kinds
            .get(plural)?
            .get(&(namespace.to_owned(), name.to_owned()))
    }

    /// Returns the cached objects of a kind, ordered by namespace and name.
    pub fn all(&self, plural: &str) -> impl Iterator<Item = &Arc<Value>> {
        self.kinds
            .get(plural)
            .into_iter()
            .flat_map(BTreeMap::values)
    }
}
