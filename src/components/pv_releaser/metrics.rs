//! The metrics of pv-releaser: Released volumes, by fate.

use super::{
    caches::Caches,
    rule::{Decision, Left, Unconfirmed},
};
use crate::{
    objects::volume::Phase,
    telemetry::{
        Metrics,
        labels::{Fate, Level},
    },
};
use prometheus_client::metrics::gauge::Gauge;
use std::collections::HashMap;

/// The fate of a Released volume that is labelled or released next.
const DUE: &str = "Due";
/// The fate of an Available volume that waits for the next claim of its namespace.
const PARKED: &str = "Parked";
/// The fates of the volumes that stay Released, which say why.
const STAY: [Left; 11] = [
    Left::Excluded,
    Left::Unlabeled,
    Left::OtherInstallation,
    Left::Freed,
    Left::NotRetained,
    Left::Deleting,
    Left::Attached,
    Left::InvalidScope,
    Left::Unrecorded,
    Left::Orphaned,
    Left::InTrash,
];

struct ReleaseMetrics {
    orphaned: Gauge,
    released: Level<Fate>,
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
            "Released volumes by fate: why they stay Released, Due if they are labelled or released next, or Parked if they wait for a claim of their namespace",
        ),
    });
    metrics.before_scrape(move |_| count(&caches, &own));
}

fn count(caches: &Caches, metrics: &ReleaseMetrics) {
    let volumes = caches.volumes.read();
    let released = volumes
        .objects()
        .filter(|(_, volume)| volume.phase == Phase::Released);
    let released: Vec<_> = released
        .map(|(name, volume)| (name.clone(), volume.clone()))
        .collect();
    let mut parked = 0;
    volumes
        .objects()
        .filter(|(_, each)| caches.is_parked(each))
        .for_each(|_| parked += 1);
    drop(volumes);
    let mut fates: HashMap<&str, i64> = HashMap::from([(PARKED, parked)]);
    for (name, volume) in &released {
        let fate = match caches.judge(name, volume) {
            Decision::Leave(left) => left.name(),
            Decision::Record => Left::Unrecorded.name(),
            Decision::Associate | Decision::Release(_, Unconfirmed) => DUE,
        };
        *fates.entry(fate).or_default() += 1;
    }
    let number = |fate| fates.get(fate).copied().unwrap_or(0);
    for fate in STAY.map(Left::name).into_iter().chain([DUE, PARKED]) {
        let released = &metrics.released;
        released.get_or_create(&Fate { fate }).set(number(fate));
    }
    metrics.orphaned.set(number(Left::Orphaned.name()));
}
