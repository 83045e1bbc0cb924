//! Active rules, and the requests that they hold.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};

use anyhow::{Context, Result};
use tokio::sync::watch;
use tokio::time::timeout;

use super::Seen;
use super::rule::{Action, Rule};
use crate::eventually::DEFAULT_TIMEOUT;
use crate::util::lock;

/// An active rule: dropping it removes the rule and releases the requests that it holds.
#[derive(Debug)]
pub struct RuleHandle {
    active: Arc<ActiveRule>,
    faults: Arc<Faults>,
}

impl RuleHandle {
    /// Releases everything that the rule holds, now and later.
    pub fn release(&self) {
        self.active.released.send_replace(true);
        self.faults.changed();
    }

    /// The number of requests to which the rule has applied.
    pub fn taken(&self) -> usize {
        lock(&self.active.taken).len()
    }

    /// Waits until `count` requests, responses or streams are held.
    pub async fn held(&self, count: usize) -> Result<()> {
        let mut held = self.active.held.subscribe();
        let wait = timeout(DEFAULT_TIMEOUT, held.wait_for(|&now| now >= count)).await;
        // The awaited value is still locked: reading it again would deadlock with a waiting
        // writer.
        let wait = wait.map(|seen| seen.map(drop));
        let now = *self.active.held.borrow();
        wait.with_context(|| {
            format!("{now} instead of {count} were held after {DEFAULT_TIMEOUT:?}")
        })??;
        Ok(())
    }
}

impl Drop for RuleHandle {
    fn drop(&mut self) {
        lock(&self.faults.rules).retain(|rule| !Arc::ptr_eq(rule, &self.active));
        self.release();
    }
}

/// A rule and its state.
#[derive(Debug)]
pub(super) struct ActiveRule {
    pub(super) rule: Rule,
    /// Keyed by the number of the request, because a rule may be evaluated several times for one.
    taken: Mutex<HashSet<usize>>,
    released: watch::Sender<bool>,
    held: watch::Sender<usize>,
}

impl ActiveRule {
    /// Whether the rule applies to this request, within its limit of times.
    fn takes(&self, number: usize, seen: &Seen) -> bool {
        let mut taken = lock(&self.taken);
        self.rule.matches(seen)
            && (taken.contains(&number) || taken.len() < self.rule.times && taken.insert(number))
    }

    pub(super) fn is_released(&self) -> bool {
        *self.released.borrow()
    }

    /// Holds the caller until released.
    pub(super) async fn hold(&self) {
        if self.is_released() {
            return;
        }
        let _held = Held::new(&self.held);
        // `self` owns the sender, so this ends only on release.
        let _ = self
            .released
            .subscribe()
            .wait_for(|&released| released)
            .await;
    }
}

/// Counts one held request, even if its client disconnects.
struct Held<'a>(&'a watch::Sender<usize>);

impl<'a> Held<'a> {
    fn new(count: &'a watch::Sender<usize>) -> Self {
        count.send_modify(|count| *count += 1);
        Self(count)
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count -= 1);
    }
}

/// The active rules and the requests so far.
#[derive(Debug, Default)]
pub(super) struct Faults {
    rules: Mutex<Vec<Arc<ActiveRule>>>,
    seen: Mutex<Vec<Seen>>,
    version: watch::Sender<u64>,
}

impl Faults {
    pub(super) fn add(self: &Arc<Self>, rule: Rule) -> RuleHandle {
        let active = ActiveRule {
            rule,
            taken: Mutex::default(),
            released: watch::Sender::new(false),
            held: watch::Sender::new(0),
        };
        let active = Arc::new(active);
        lock(&self.rules).push(Arc::clone(&active));
        self.changed();
        RuleHandle {
            active,
            faults: Arc::clone(self),
        }
    }

    /// Records a request and assigns its number.
    pub(super) fn record(&self, seen: Seen) -> usize {
        let mut all = lock(&self.seen);
        all.push(seen);
        let number = all.len() - 1;
        drop(all);
        self.changed();
        number
    }

    pub(super) fn requests(&self) -> Vec<Seen> {
        lock(&self.seen).clone()
    }

    /// The rules that apply to a request and have an action of the wanted kind.
    pub(super) fn rules(
        &self,
        number: usize,
        seen: &Seen,
        wanted: fn(&Action) -> bool,
    ) -> Vec<Arc<ActiveRule>> {
        let rules = lock(&self.rules);
        rules
            .iter()
            .filter(|active| wanted(&active.rule.action) && active.takes(number, seen))
            .cloned()
            .collect()
    }

    /// Wakes on every new rule, release and request.
    pub(super) fn changes(&self) -> watch::Receiver<u64> {
        self.version.subscribe()
    }

    fn changed(&self) {
        self.version.send_modify(|version| *version += 1);
    }
}
