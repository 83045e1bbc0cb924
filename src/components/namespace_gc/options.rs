//! Options of namespace-gc: which namespaces are deleted from the storage backend, and when.

use super::protect::Glob;
use std::time::Duration;

/// Options of one or repeated collections.
#[derive(Clone, Debug)]
pub struct Options {
    /// Which namespaces of the backend a collection may delete.
    pub scope: Scope,
    /// Patterns for the names of namespaces that are never deleted from the backend.
    pub protect: Vec<Glob>,
    /// Minimum age of a namespace in the backend at which a collection or a retry deletes it.
    pub grace: Duration,
    /// Maximum number of namespaces that one collection deletes from the backend; 0 means no limit.
    pub max_deletions: usize,
    /// Interval between the two LISTs of Kubernetes namespaces in one collection.
    pub confirm_after: Duration,
    /// Delay from the acquisition of the Lease to the first collection.
    pub delay: Duration,
    /// Interval between periodic collections; 0 disables all collections of `volume-warden run`.
    pub interval: Duration,
    /// Maximum number of concurrent deletions in the backend.
    pub workers: usize,
    /// Whether namespaces are only judged: nothing is deleted, and no name is recorded.
    pub dry_run: bool,
}

/// Which namespaces of the backend a collection may delete.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Scope {
    /// All namespaces that Kubernetes does not have. This requires that no other cluster uses the
    /// storage.
    All,
    /// Only namespaces that this cluster once had. Other clusters may use the storage, too.
    Seen,
}

impl Options {
    /// Whether a namespace of this name is never deleted from the backend.
    pub fn protects(&self, name: &str) -> bool {
        self.protect.iter().any(|glob| glob.matches(name))
    }
}

#[cfg(test)]
impl Default for Options {
    /// The defaults of the command-line flags for the StorageOS backend.
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
