//! The sums of the page.

use super::{Subject, age::Age, stuck};
use crate::unused::{Row, State};
use std::collections::BTreeMap;

/// Some claims and volumes: their number, size and cost.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Sum {
    pub(super) count: usize,
    pub(super) bytes: f64,
    /// The cost in a month of those whose class has a price; none if there are none.
    pub(super) cost: Option<f64>,
    /// The number of those whose class has a price.
    pub(super) priced: usize,
}

impl Sum {
    /// Adds a claim or volume.
    pub(super) fn add(&mut self, subject: &Subject<'_>, row: &Row) {
        self.count += 1;
        self.bytes += row.bytes();
        if let Some(cost) = subject.cost(row) {
            self.cost = Some(self.cost.unwrap_or_default() + cost);
            self.priced += 1;
        }
    }

    fn of<'a>(subject: &Subject<'_>, rows: impl IntoIterator<Item = &'a Row>) -> Self {
        let mut sum = Self::default();
        rows.into_iter().for_each(|row| sum.add(subject, row));
        sum
    }
}

/// All sums. Each claim and each volume without a claim is in exactly one state.
#[derive(Debug, PartialEq)]
pub(super) struct Figures {
    pub(super) total: Sum,
    /// Everything that no pod uses.
    pub(super) idle: Sum,
    pub(super) by_state: BTreeMap<State, Sum>,
    /// What is [`State::Unused`], by age.
    pub(super) by_age: BTreeMap<Age, Sum>,
    /// What is stuck. It is also in the sum of its state.
    pub(super) stuck: Sum,
}

impl Figures {
    /// Adds up the rows.
    pub(super) fn new(subject: &Subject<'_>, rows: &[Row]) -> Self {
        let mut by_state: BTreeMap<State, Sum> = BTreeMap::new();
        let mut by_age: BTreeMap<Age, Sum> = BTreeMap::new();
        for row in rows {
            by_state.entry(row.state).or_default().add(subject, row);
            if row.state == State::Unused {
                let age = by_age.entry(Age::of(row.since, subject.now));
                age.or_default().add(subject, row);
            }
        }
        let idle = rows.iter().filter(|row| row.state != State::Used);
        let stuck = stuck::of(subject, rows);
        Self {
            total: Sum::of(subject, rows),
            idle: Sum::of(subject, idle),
            by_state,
            by_age,
            stuck: Sum::of(subject, stuck.iter().map(|stuck| stuck.row)),
        }
    }

    /// Returns the sum of a state.
    pub(super) fn of(&self, state: State) -> Sum {
        self.by_state.get(&state).copied().unwrap_or_default()
    }
}
