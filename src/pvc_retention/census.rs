//! How many sets and claims there are, for the metrics.

use super::{
    known::{Known, judge},
    rule::Fate,
};
use crate::{
    objects::stateful_set::{Policy, Retention},
    telemetry::Metrics,
};
use std::collections::HashMap;

/// Counts sets by policy and claims by fate, when somebody asks.
pub fn count(known: &Known, metrics: &Metrics) {
    let sets = known.all_sets();
    let mut policies: HashMap<Retention, i64> = HashMap::new();
    let mut fates: HashMap<Fate, i64> = HashMap::new();
    for (name, set) in &sets {
        let Some(retention) = set.retention else {
            continue;
        };
        *policies.entry(retention).or_default() += 1;
        let members = known.members(name);
        let verdicts = judge(name, set, retention, &members, &known.pods.read());
        for verdict in verdicts {
            *fates.entry(verdict.fate).or_default() += 1;
        }
    }
    for when_deleted in Policy::ALL {
        for when_scaled in Policy::ALL {
            let count = policies
                .get(&Retention {
                    when_deleted,
                    when_scaled,
                })
                .copied();
            metrics.sets(when_deleted.name(), when_scaled.name(), count.unwrap_or(0));
        }
    }
    for fate in Fate::ALL {
        metrics.claims(fate.name(), fates.get(&fate).copied().unwrap_or(0));
    }
}
