//! The metrics of pvc-trash: volumes with a record and their capacity by fate, and the oldest
//! deletion.

use super::{
    caches::Caches,
    recorded::record_in_trash,
    rule::{Decision, LeaveReason},
};
use crate::{
    clock::Clock,
    hashing::HashMap,
    objects::quantity,
    telemetry::{
        Metrics,
        labels::{Fate as FateLabel, Level},
    },
};
use prometheus_client::metrics::gauge::Gauge;
use strum::{IntoStaticStr, VariantArray};

/// What becomes of a volume with a record. A fate without a volume is reported as zero.
#[derive(Clone, Copy, PartialEq, Eq, Hash, IntoStaticStr, VariantArray)]
enum Fate {
    Enabled,
    Released,
    InTrash,
    Due,
    Kept,
    Restoring,
    Purging,
    Unreadable,
}

struct TrashMetrics {
    volumes: Level<FateLabel>,
    bytes: Level<FateLabel>,
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
    let mut fates: HashMap<Fate, (i64, f64)> = HashMap::default();
    let mut oldest = None;
    for (name, volume) in &recorded {
        let fate = match caches.judge(name, volume) {
            Decision::Keep { until, requested } if requested || until <= now => Fate::Due,
            Decision::Keep { .. } => Fate::InTrash,
            Decision::MoveToTrash(_) => Fate::Released,
            Decision::Restore(_) | Decision::AwaitBinding | Decision::ReturnToTrash => {
                Fate::Restoring
            }
            Decision::Record(_) | Decision::Disable => Fate::Enabled,
            Decision::Leave(
                LeaveReason::Enabled | LeaveReason::Terminating | LeaveReason::Announced,
            ) => Fate::Enabled,
            Decision::Leave(LeaveReason::Kept) => Fate::Kept,
            Decision::Leave(LeaveReason::Purging) => Fate::Purging,
            Decision::Leave(LeaveReason::Unreadable) => Fate::Unreadable,
            Decision::Leave(LeaveReason::Shared) => Fate::InTrash,
            Decision::Leave(
                LeaveReason::NotEnabled | LeaveReason::Full | LeaveReason::Deleting,
            ) => continue,
        };
        let capacity = volume.trash.as_deref().map(|trash| &*trash.capacity);
        let (number, bytes) = fates.entry(fate).or_default();
        *number += 1;
        *bytes += capacity.map_or(0.0, quantity::of);
        let deleted = record_in_trash(volume).and_then(|record| record.deleted_at);
        oldest = deleted.into_iter().chain(oldest).min();
    }
    for fate in Fate::VARIANTS {
        let (number, bytes) = fates.get(fate).copied().unwrap_or_default();
        let label = FateLabel { fate: fate.into() };
        metrics.volumes.get_or_create(&label).set(number);
        // The sum fits into an `i64`: no cluster has that many bytes.
        metrics.bytes.get_or_create(&label).set(bytes as i64);
    }
    metrics
        .oldest
        .set(oldest.map_or(0, |oldest| oldest.as_second()));
}
