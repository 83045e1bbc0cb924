//! How many volumes are orphans, for the metrics.

use super::known::Known;
use crate::{objects::volume::Phase, telemetry::Metrics};

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
    let orphans = released
        .iter()
        .filter(|(name, volume)| known.is_orphan(name, volume));
    metrics.orphaned_volumes(orphans.count().try_into().unwrap_or(i64::MAX));
}
