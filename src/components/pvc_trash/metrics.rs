//! The metrics of pvc-trash: volumes with a record and their capacity by fate, and the oldest
//! deletion.

use super::{
    caches::Caches,
    recorded::record_in_trash,
    rule::{Decision, Left},
};
use crate::{
    clock::Clock,
    hashing::HashMap,
    objects::quantity,
    telemetry::{
        Metrics,
        labels::{Fate, Level},
    },
};
use prometheus_client::metrics::gauge::Gauge;

/// Every fate that the metric reports. A fate without a volume is reported as zero.
const FATES: [&str; 8] = [
    ENABLED, RELEASED, IN_TRASH, DUE, KEPT, RESTORING, PURGING, UNREADABLE,
];
const ENABLED: &str = "Enabled";
const RELEASED: &str = "Released";
const IN_TRASH: &str = "InTrash";
const DUE: &str = "Due";
const KEPT: &str = "Kept";
const RESTORING: &str = "Restoring";
const PURGING: &str = "Purging";
const UNREADABLE: &str = "Unreadable";

struct TrashMetrics {
    volumes: Level<Fate>,
    bytes: Level<Fate>,
    oldest: Gauge,
}

/// Registers the metrics, which are computed before each scrape.
pub fn register(metrics: &Metrics, caches: Caches, clock: Clock) {
    let own = metrics.register(|own| TrashMetrics {
        volumes: own.add(
            "trash_volumes",
            "Volumes with a record of pvc-trash, by fate: Enabled while the claim exists, Released \
             before the window begins, InTrash, Due if the window has ended or a purge was \
             requested, Kept without limit if the reclaim policy was Retain, Restoring, Purging, \
             Unreadable if the record cannot be read",
        ),
        bytes: own.add(
            "trash_bytes",
            "Capacity of the volumes in volume_warden_trash_volumes in bytes, by fate",
        ),
        oldest: own.add(
            "trash_oldest_timestamp_seconds",
            "Unix time of the deletion of the claim whose volume has been in the trash for \
             longest; 0 if the trash is empty",
        ),
    });
    metrics.before_scrape(move |_| count(&caches, &clock, &own));
}

fn count(caches: &Caches, clock: &Clock, metrics: &TrashMetrics) {
    let recorded: Vec<_> = {
        let volumes = caches.volumes.read();
        let recorded = volumes
            .objects()
            .filter(|(_, volume)| volume.trash.is_some());
        recorded
            .map(|(name, volume)| (name.clone(), volume.clone()))
            .collect()
    };
    let now = clock.timestamp();
    let mut fates: HashMap<&str, (i64, f64)> = HashMap::default();
    let mut oldest = None;
    for (name, volume) in &recorded {
        let fate = match caches.judge(name, volume) {
            Decision::Keep { until, requested } if requested || until <= now => DUE,
            Decision::Keep { .. } => IN_TRASH,
            Decision::MoveToTrash(_) => RELEASED,
            Decision::Restore(_) | Decision::AwaitBinding | Decision::Return => RESTORING,
            Decision::Record(_) | Decision::Disable => ENABLED,
            Decision::Leave(Left::Enabled | Left::Terminating | Left::Announced) => ENABLED,
            Decision::Leave(Left::Kept) => KEPT,
            Decision::Leave(Left::Purging) => PURGING,
            Decision::Leave(Left::Unreadable) => UNREADABLE,
            Decision::Leave(Left::Shared) => IN_TRASH,
            Decision::Leave(Left::NotEnabled | Left::Full | Left::Deleting) => continue,
        };
        let capacity = volume.trash.as_deref().map(|trash| &*trash.capacity);
        let (number, bytes) = fates.entry(fate).or_default();
        *number += 1;
        *bytes += capacity.map_or(0.0, quantity::of);
        let deleted = record_in_trash(volume).and_then(|record| record.deleted_at);
        oldest = deleted.into_iter().chain(oldest).min();
    }
    for fate in FATES {
        let (number, bytes) = fates.get(fate).copied().unwrap_or_default();
        metrics.volumes.get_or_create(&Fate { fate }).set(number);
        // The sum fits into an `i64`: no cluster has that many bytes.
        metrics
            .bytes
            .get_or_create(&Fate { fate })
            .set(bytes as i64);
    }
    metrics
        .oldest
        .set(oldest.map_or(0, |oldest| oldest.as_second()));
}
