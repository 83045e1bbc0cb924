//! What a collection found and did.

use super::{Reason, Removal, Verdict};
use std::collections::HashMap;
use strum::VariantArray as _;

/// One namespace of the backend.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// Its name.
    pub name: String,
    /// What the collection came to.
    pub verdict: Verdict,
    /// What became of it, where it was to go.
    pub removal: Option<Removal>,
}

impl Row {
    /// It was to go and did not. One that is not empty is no failure: so it should be.
    pub fn failed(&self) -> bool {
        let stays = matches!(self.removal, Some(Removal::Waits(..) | Removal::NotLeading));
        stays && !self.is_not_empty()
    }

    /// Something is in it.
    pub fn is_not_empty(&self) -> bool {
        matches!(self.removal, Some(Removal::Waits(Reason::NotEmpty, _)))
    }
}

/// A whole collection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// All namespaces of the backend, by name.
    pub rows: Vec<Row>,
    /// Entries of the backend that were no namespaces.
    pub skipped: usize,
}

impl Report {
    /// How often each verdict was come to.
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

    /// How many rows are so.
    pub fn count(&self, what: impl Fn(&Row) -> bool) -> usize {
        self.rows.iter().filter(|row| what(row)).count()
    }

    /// How many were deleted.
    pub fn deleted(&self) -> usize {
        self.count(|row| row.removal == Some(Removal::Deleted))
    }

    /// How many were to go and did not, for no good reason.
    pub fn failed(&self) -> usize {
        self.count(Row::failed)
    }
}
