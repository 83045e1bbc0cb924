//! The metrics of pv-releaser: Released and parked volumes by fate, which says why they stay
//! Released or what happens next.

use super::{
    caches::Caches,
    rule::{Decision, LeaveReason, Unconfirmed},
};
use crate::{
    hashing::HashMap,
    objects::{Volume, volume::Phase},
    telemetry::{
        Metrics,
        labels::{Fate, Level},
    },
};
use prometheus_client::metrics::gauge::Gauge;

/// The fate of a Released volume that is labelled or released next.
const DUE: &str = "Due";
/// The fate of a parked volume, which waits for the next claim of its namespace.
const PARKED: &str = "Parked";
/// The fates of other Released volumes: why they are left unchanged. [`LeaveReason::InUse`] is not
/// reported: it lasts only until the watch delivers the deletion of the claim.
const STAY: [LeaveReason; 12] = [
    LeaveReason::Excluded,
    LeaveReason::Unlabeled,
    LeaveReason::OtherInstallation,
    LeaveReason::Freed,
    LeaveReason::NotRetained,
    LeaveReason::Deleting,
    LeaveReason::Attached,
    LeaveReason::InvalidScope,
    LeaveReason::Unrecorded,
    LeaveReason::Unwatched,
    LeaveReason::Orphaned,
    LeaveReason::InTrash,
];

struct ReleaseMetrics {
    orphaned: Gauge,
    released: Level<Fate>,
    bytes: Level<Fate>,
}

/// Registers the metrics, which are computed before each scrape.
pub fn register(metrics: &Metrics, caches: Caches) {
    let own = metrics.register(|own| ReleaseMetrics {
        orphaned: own.add(
            "orphaned_volumes",
            "Released volumes that no label or class assigns to an installation",
        ),
        released: own.add(
            "released_volumes",
            "Volumes of deleted claims by fate: Due if they are labelled or released next, Parked \
             if they are Available for a claim of their namespace, else why they stay Released",
        ),
        bytes: own.add(
            "released_bytes",
            "Capacity of the volumes in volume_warden_released_volumes in bytes, by fate",
        ),
    });
    metrics.before_scrape(move |_| count(&caches, &own));
}

fn count(caches: &Caches, metrics: &ReleaseMetrics) {
    let volumes = caches.volumes.read();
    let released = volumes
        .objects()
        // A volume that was just parked is Released until its phase changes.
        .filter(|(_, volume)| volume.phase == Phase::Released && !caches.is_parked(volume));
    let released: Vec<_> = released
        .map(|(name, volume)| (name.clone(), volume.clone()))
        .collect();
    let mut fates: HashMap<&str, (i64, f64)> = HashMap::default();
    let mut add = |fate, volume: &Volume| {
        let (number, bytes) = fates.entry(fate).or_default();
        *number += 1;
        *bytes += volume.capacity;
    };
    let parked = volumes.objects();
    parked
        .filter(|(_, volume)| caches.is_parked(volume))
        .for_each(|(_, volume)| add(PARKED, volume));
    drop(volumes);
    for (name, volume) in &released {
        let fate = match caches.judge(name, volume) {
            Decision::Leave(leave_reason) => leave_reason.name(),
            Decision::Record => LeaveReason::Unrecorded.name(),
            Decision::Associate | Decision::Release(_, Unconfirmed) => DUE,
        };
        add(fate, volume);
    }
    let of = |fate| fates.get(fate).copied().unwrap_or_default();
    for fate in STAY.map(LeaveReason::name).into_iter().chain([DUE, PARKED]) {
        let (number, bytes) = of(fate);
        metrics.released.get_or_create(&Fate { fate }).set(number);
        let sum = metrics.bytes.get_or_create(&Fate { fate });
        // The sum fits into an `i64`: no cluster has that many bytes.
        sum.set(bytes as i64);
    }
    metrics.orphaned.set(of(LeaveReason::Orphaned.name()).0);
}
