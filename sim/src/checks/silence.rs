//! S14: a replica ends a watch on which nothing arrives.

use super::Found;
use crate::{
    cluster::Cluster,
    plan::{Disruption, Plan},
    replica::is_replica,
};
use std::{collections::BTreeMap, sync::Arc};

/// The time, in milliseconds, after which a silent watch is ended. Source:
/// `docs/operations/failures.md`.
const SILENT: u64 = 205_000;
/// Tolerance, in milliseconds, for the rounding of times in the schedule.
const ROUNDING: u64 = 100;

/// The watches that the replicas read.
#[derive(Default)]
pub struct Watches {
    /// By number: a description of the watch, and when something last arrived on it.
    open: BTreeMap<u64, (String, u64)>,
    begun: u64,
}

impl Watches {
    fn begin(&mut self, now: u64, what: String) -> u64 {
        self.begun += 1;
        self.open.insert(self.begun, (what, now));
        self.begun
    }

    /// Records that something arrived on the watch, or that the client ended it.
    fn received(&mut self, plan: &Plan, now: u64, number: u64, ended: bool) -> Found {
        let (what, last) = self.open.remove(&number)?;
        let found = silent(plan, now, &what, last);
        if !ended {
            self.open.insert(number, (what, now));
        }
        found
    }

    /// Returns a violation if a watch has been silent for too long.
    pub fn silent(&self, plan: &Plan, now: u64) -> Found {
        let mut open = self.open.values();
        open.find_map(|(what, last)| silent(plan, now, what, *last))
    }
}

/// Returns a violation if the watch has been silent for too long. Pauses of the process extend the
/// limit: without CPU time, a process cannot end the watch.
fn silent(plan: &Plan, now: u64, what: &str, last: u64) -> Found {
    let pauses = plan.disruptions.iter().map(|(_, each)| match each {
        Disruption::Pause { milliseconds, .. } => *milliseconds,
        _ => 0,
    });
    let silent = now.saturating_sub(last);
    let why = || format!("{what} was silent for {silent} ms and not ended");
    (silent > SILENT + pauses.sum::<u64>() + ROUNDING).then(|| ("S14", why()))
}

/// Marks that a replica reads a watch, until it is dropped.
pub struct Listening {
    cluster: Arc<Cluster>,
    number: u64,
}

impl Listening {
    /// Records that a client begins to read a watch. `None` if the client is not a replica.
    pub fn begin(cluster: &Arc<Cluster>, client: &str, path: &str) -> Option<Self> {
        if !is_replica(client) {
            return None;
        }
        let (now, mut number) = (cluster.schedule.now(), 0);
        cluster.checks.with_watches(now, |watches, _| {
            number = watches.begin(now, format!("the watch {path} of {client}"));
            None
        });
        let cluster = cluster.clone();
        Some(Self { cluster, number })
    }

    /// Records that something arrives on the watch.
    pub fn received(&self) {
        self.learn(false);
    }

    fn learn(&self, ended: bool) {
        let now = self.cluster.schedule.now();
        self.cluster.checks.with_watches(now, |watches, plan| {
            watches.received(plan, now, self.number, ended)
        });
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.learn(true);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_silent_watch_is_ended_when_the_page_says_so() {
        let plan = Plan {
            disruptions: Vec::new(),
            ..Plan::new(1)
        };
        let mut watches = Watches::default();
        let number = watches.begin(0, "the watch".into());
        assert_eq!(watches.received(&plan, 200_000, number, false), None);
        assert_eq!(watches.silent(&plan, 405_000), None);
        assert!(watches.silent(&plan, 405_101).is_some());
        assert!(watches.received(&plan, 405_101, number, true).is_some());
        assert_eq!(watches.silent(&plan, 900_000), None, "the watch ended");
        let page = include_str!("../../../docs/operations/failures.md");
        assert!(page.contains("the watch is restarted within 205 s |"));
    }
}
