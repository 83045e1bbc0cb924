//! The sums of the page.

use super::{Subject, age::Age, stuck};
use crate::unused::{Row, State, Sum};
use std::collections::BTreeMap;

/// All sums. Each claim and each volume without a claim is in exactly one state.
#[derive(Debug, PartialEq)]
pub(super) struct Figures {
    pub(super) total: Sum,
    /// The sum of all claims and volumes that no pod uses.
    pub(super) idle: Sum,
    pub(super) by_state: BTreeMap<State, Sum>,
    /// The sums of the claims in the state [`State::Unused`], by age.
    pub(super) by_age: BTreeMap<Age, Sum>,
    /// What is stuck. It is also in the sum of its state.
    pub(super) stuck: Sum,
}

impl Figures {
    /// Adds up the rows to the sums that the page shows.
    pub(super) fn new(subject: &Subject<'_>, rows: &[Row]) -> Self {
        let prices = subject.prices;
        let mut by_state: BTreeMap<State, Sum> = BTreeMap::new();
        let mut by_age: BTreeMap<Age, Sum> = BTreeMap::new();
        for row in rows {
            by_state.entry(row.state).or_default().add(row, prices);
            if row.state == State::Unused {
                let age = by_age.entry(Age::of(row.since, subject.now));
                age.or_default().add(row, prices);
            }
        }
        let idle = rows.iter().filter(|row| row.state != State::Used);
        let stuck = stuck::of(subject, rows);
        Self {
            total: Sum::of(rows, prices),
            idle: Sum::of(idle, prices),
            by_state,
            by_age,
            stuck: Sum::of(stuck.iter().map(|stuck| stuck.row), prices),
        }
    }

    /// Returns the sum of this state; zero if no volume or claim has it.
    pub(super) fn of(&self, state: State) -> Sum {
        self.by_state.get(&state).copied().unwrap_or_default()
    }
}
