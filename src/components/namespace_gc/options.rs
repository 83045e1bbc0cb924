//! Options of collections: which namespaces are deleted, and when.

use super::protect::Glob;
use std::time::Duration;

/// Options of collections.
#[derive(Clone, Debug)]
pub struct Options {
    /// Which namespaces a collection may delete.
    pub scope: Scope,
    /// Namespaces that are never deleted.
    pub protect: Vec<Glob>,
    /// Minimum age of a namespace in the backend before a collection deletes it.
    pub grace: Duration,
    /// Maximum number of deletions in one collection; 0 for no limit.
    pub max_deletions: usize,
    /// Time between the two LISTs of Kubernetes in a collection.
    pub confirm_after: Duration,
    /// Delay of the first collection after this replica becomes the leader.
    pub delay: Duration,
    /// Interval between collections; 0 disables them.
    pub interval: Duration,
    /// Maximum number of concurrent deletions.
    pub workers: usize,
    /// Delete and record nothing.
    pub dry_run: bool,
}

/// Which namespaces of the backend a collection may delete.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Scope {
    /// All that Kubernetes does not have: only this cluster uses the storage.
    All,
    /// Only those that this cluster once had: other clusters or users share the storage.
    Seen,
}

impl Options {
    /// Whether the namespace is protected from deletion.
    pub fn protects(&self, name: &str) -> bool {
        self.protect.iter().any(|glob| glob.matches(name))
    }
}

#[cfg(test)]
impl Default for Options {
    /// The defaults of the flags, for StorageOS.
    fn default() -> Self {
        let glob = |text: &str| text.parse().expect("a glob");
        Self {
            scope: Scope::All,
            protect: vec![glob("default"), glob("kube-*")],
            grace: Duration::from_secs(60),
            max_deletions: 100,
            confirm_after: Duration::from_secs(10),
            delay: Duration::from_secs(20),
            interval: Duration::from_secs(3600),
            workers: 5,
            dry_run: false,
        }
    }
}
