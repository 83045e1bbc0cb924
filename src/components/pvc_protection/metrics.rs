//! The metrics of pvc-protection: claims that are being deleted but still exist, by cause, and
//! claims that no pod uses.

use super::unused;
use crate::{
    causes::{Code, FinishedPods, claim_code},
    cluster::Feed,
    hashing::HashMap,
    objects::{Claim, ObjectName, Pod},
    telemetry::{HeldMetrics, Metrics},
};
use std::sync::Arc;

/// Every cause that [`claim_code`] returns. The metric reports a cause without a claim as zero.
const CAUSES: [Code; 4] = [
    Code::InUse,
    Code::FinishedPod,
    Code::NotInUse,
    Code::ForeignFinalizer,
];

/// Registers the metrics of pvc-protection, which are computed before each scrape.
pub fn register(
    metrics: &Metrics,
    claims: Arc<Feed<Claim>>,
    pods: Arc<Feed<Pod>>,
    mode: FinishedPods,
) {
    let help = "Claims that are being deleted but still exist, by cause";
    let held = metrics.register(|own| HeldMetrics::new("claims_held", help, own));
    unused::metrics::register(metrics, claims.clone());
    metrics.before_scrape(move |_| count(&claims, &pods, mode, &held));
}

fn count(claims: &Feed<Claim>, pods: &Feed<Pod>, mode: FinishedPods, metrics: &HeldMetrics) {
    let deleted = deleted(claims);
    let mut held: HashMap<Code, Vec<i64>> = HashMap::default();
    for (name, claim) in &deleted {
        // Locked for each claim, so that the watch of pods does not wait for all of them.
        let pods = pods.read();
        let users = pods.referrers(name).map(|pod| &**pod);
        if let Some(cause) = claim_code(&name.name, claim, users, mode) {
            held.entry(cause).or_default().push(claim.rare.deleted);
        }
    }
    for cause in CAUSES {
        let since = held.remove(&cause).unwrap_or_default();
        metrics.set(cause.name(), &since);
    }
}

/// The claims that are being deleted, copied so that the lock on the claims is released before the
/// pods are locked.
pub(super) fn deleted(claims: &Feed<Claim>) -> Vec<(ObjectName, Arc<Claim>)> {
    let claims = claims.read();
    let deleted = claims.objects().filter(|(_, claim)| claim.deleting);
    deleted
        .map(|(name, claim)| (name.clone(), claim.clone()))
        .collect()
}
