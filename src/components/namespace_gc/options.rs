//! What may be chosen about which namespaces go, and when.

use super::protect::Glob;
use std::time::Duration;

/// See the module.
#[derive(Clone, Debug)]
pub struct Options {
    /// Which namespaces a collection may take.
    pub scope: Scope,
    /// These never go.
    pub protect: Vec<Glob>,
    /// A namespace that the backend knows for less long is left to a later collection.
    pub grace: Duration,
    /// Deletions of one collection; 0 for any number.
    pub max_deletions: usize,
    /// Between the two looks at Kubernetes of one collection.
    pub confirm_after: Duration,
    /// From when this replica leads to the first collection.
    pub delay: Duration,
    /// From one collection to the next; 0 for none at all.
    pub interval: Duration,
    /// Deletions that are under way at once.
    pub workers: usize,
    /// Nothing is deleted and nothing recorded.
    pub dry_run: bool,
}

/// Which namespaces of the backend a collection may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Scope {
    /// All that Kubernetes does not have: the storage is this cluster's alone.
    All,
    /// Only those that this cluster once had: others keep things there, too.
    Seen,
}

impl Options {
    /// Whether that namespace never goes.
    pub fn protects(&self, name: &str) -> bool {
        self.protect.iter().any(|glob| glob.matches(name))
    }
}

#[cfg(test)]
impl Default for Options {
    /// As by the defaults of the command line, for StorageOS.
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
