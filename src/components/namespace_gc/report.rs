//! The report of a collection: which namespaces it found, and what it did with each.

use super::{Reason, Removal, Verdict};
use crate::hashing::HashMap;
use strum::VariantArray as _;

/// One namespace of the backend in the report of a collection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// The name of the namespace in the backend and in Kubernetes.
    pub name: String,
    /// The verdict of the collection on the namespace.
    pub verdict: Verdict,
    /// The result of the removal, if the namespace was an orphan.
    pub removal: Option<Removal>,
}

impl Row {
    /// Whether the removal of the namespace failed. A namespace that is not empty is kept by
    /// design, and does not count as a failure; one that was kept because this replica lost the
    /// lead does.
    pub fn failed(&self) -> bool {
        let stays = matches!(self.removal, Some(Removal::Waits(..) | Removal::NotLeading));
        stays && !self.is_not_empty()
    }

    /// Whether the namespace was kept because it is not empty.
    pub fn is_not_empty(&self) -> bool {
        matches!(self.removal, Some(Removal::Waits(Reason::NotEmpty, _)))
    }
}

/// What a collection decided about each namespace, and did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// All namespaces of the backend, sorted by name.
    pub rows: Vec<Row>,
    /// Number of entries of the backend that were not namespaces.
    pub skipped: usize,
}

impl Report {
    /// The number of namespaces by verdict.
    pub fn verdicts(&self) -> HashMap<Verdict, usize> {
        let mut verdicts: HashMap<_, _> = Verdict::VARIANTS
            .iter()
            .map(|verdict| (*verdict, 0))
            .collect();
        for row in &self.rows {
            *verdicts.entry(row.verdict).or_default() += 1;
        }
        verdicts
    }

    /// The number of rows for which `what` returns true.
    pub fn count(&self, what: impl Fn(&Row) -> bool) -> usize {
        self.rows.iter().filter(|row| what(row)).count()
    }

    /// The number of namespaces that the collection deleted.
    pub fn deleted(&self) -> usize {
        self.count(|row| row.removal == Some(Removal::Deleted))
    }

    /// The number of failed removals, see [`Row::failed`].
    pub fn failed(&self) -> usize {
        self.count(Row::failed)
    }
}
