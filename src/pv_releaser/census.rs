//! What becomes of Released volumes, for the metrics.

use super::{
    known::Known,
    rule::{Decision, Left},
};
use crate::{objects::volume::Phase, telemetry::Metrics};
use std::collections::HashMap;

/// It is labelled or released next.
const DUE: &str = "Due";
/// Why the others stay Released.
const STAY: [Left; 7] = [
    Left::NotOurs,
    Left::Foreign,
    Left::Freed,
    Left::NotRetained,
    Left::Deleting,
    Left::Attached,
    Left::Orphaned,
];

/// Counts them, when somebody asks.
pub fn count(known: &Known, metrics: &Metrics) {
    let volumes = known.volumes.read();
    let released = volumes
        .objects()
        .filter(|(_, volume)| volume.phase == Phase::Released);
    let released: Vec<_> = released
        .map(|(name, volume)| (name.clone(), volume.clone()))
        .collect();
    drop(volumes);
    let mut fates: HashMap<&str, i64> = HashMap::new();
    for (name, volume) in &released {
        let fate = match known.judge(name, volume) {
            Decision::Leave(left) => left.name(),
            Decision::Associate | Decision::Confirm | Decision::Release => DUE,
        };
        *fates.entry(fate).or_default() += 1;
    }
    let number = |fate| fates.get(fate).copied().unwrap_or(0);
    for fate in STAY.map(Left::name).into_iter().chain([DUE]) {
        metrics.released_volumes(fate, number(fate));
    }
    metrics.orphaned_volumes(number(Left::Orphaned.name()));
}
