//! Storage by namespace and class.

use super::Subject;
use crate::unused::{Row, State, Sum};
use std::collections::BTreeMap;

/// The storage of one class in one namespace.
pub(super) struct Location<'a> {
    /// The namespace; empty for volumes that name no claim.
    pub(super) namespace: &'a str,
    /// The class; empty if there is none.
    pub(super) class: &'a str,
    pub(super) total: Sum,
    /// What no pod uses.
    pub(super) idle: Sum,
}

/// Returns all locations, the largest first.
pub(super) fn locations<'a>(subject: &Subject<'_>, rows: &'a [Row]) -> Vec<Location<'a>> {
    let mut sums: BTreeMap<(&str, &str), (Sum, Sum)> = BTreeMap::new();
    for row in rows {
        let (total, idle) = sums.entry((&row.namespace, &row.class)).or_default();
        total.add(row, subject.prices);
        if row.state != State::Used {
            idle.add(row, subject.prices);
        }
    }
    let locations = sums
        .into_iter()
        .map(|((namespace, class), (total, idle))| Location {
            namespace,
            class,
            total,
            idle,
        });
    let mut locations: Vec<_> = locations.collect();
    locations.sort_by(|a, b| b.total.bytes.total_cmp(&a.total.bytes));
    locations
}
