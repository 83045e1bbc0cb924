//! The metrics of pvc-expiry: claims that may expire.

use super::{
    caches::Caches,
    rule::{Decision, Left},
};
use crate::telemetry::{
    Metrics,
    labels::{Fate, Level},
};
use std::collections::HashMap;

/// The values of the label `fate`. The metric reports 0 for a value that no claim has.
const FATES: [&str; 5] = [USED, WAITING, ANNOUNCED, DUE, CANNOT_EXPIRE];
const USED: &str = "Used";
const WAITING: &str = "Waiting";
const ANNOUNCED: &str = "Announced";
const DUE: &str = "Due";
const CANNOT_EXPIRE: &str = "CannotExpire";

/// Registers the metric `expiry_claims`, which Volume Warden computes before each scrape.
pub fn register(metrics: &Metrics, caches: Caches) {
    let claims: Level<Fate> = metrics.register(|own| {
        own.add(
            "expiry_claims",
            "Claims to which an expiry annotation applies, by fate: Used (named by a pod, or owned \
             by another object), Waiting (unused, but not for long enough), Announced (deleted \
             within seven days unless a pod uses it), Due (deleted next), CannotExpire (kept, \
             because the data could not be restored or the annotation cannot be read)",
        )
    });
    metrics.before_scrape(move |_| {
        let mut fates: HashMap<&str, i64> = HashMap::new();
        for (name, claim) in caches.candidates() {
            let announced = claim
                .rare
                .expiry
                .as_ref()
                .is_some_and(|expiry| expiry.at.is_some());
            if let Some(fate) = fate(&caches.judge(&name, &claim), announced) {
                *fates.entry(fate).or_default() += 1;
            }
        }
        for fate in FATES {
            let number = fates.get(fate).copied().unwrap_or_default();
            claims.get_or_create(&Fate { fate }).set(number);
        }
    });
}

fn fate(decision: &Decision, announced: bool) -> Option<&'static str> {
    match decision {
        Decision::Leave(Left::NotRequested | Left::NotBound) => None,
        Decision::Leave(Left::Unreadable | Left::NoWindow) => Some(CANNOT_EXPIRE),
        Decision::Leave(Left::Used | Left::Owned) | Decision::Cancel => Some(USED),
        Decision::Wait(_) if announced => Some(ANNOUNCED),
        Decision::Wait(_) | Decision::Announce(_) | Decision::Leave(Left::NotObserved) => {
            Some(WAITING)
        }
        Decision::Expire => Some(DUE),
    }
}
