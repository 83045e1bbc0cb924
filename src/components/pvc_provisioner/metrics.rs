//! The metrics of pvc-provisioner: claims that still await their pod as owner.

use super::{caches::Caches, rule::awaits_pod};
use crate::{objects::ControllerId, telemetry::Metrics};
use prometheus_client::metrics::gauge::Gauge;

/// Registers the metrics of pvc-provisioner, which are computed before each scrape.
pub fn register(metrics: &Metrics, caches: Caches, controller_id: ControllerId) {
    let awaiting: Gauge = metrics.register(|own| {
        own.add(
            "claims_awaiting_pod",
            "Claims created at admission that have no owner reference yet: claims in the phase Pending, and claims whose pod has not been seen",
        )
    });
    metrics.before_scrape(move |_| {
        let claims = caches.claims.read();
        let names = claims.names_where(|claim| awaits_pod(claim, &controller_id));
        awaiting.set(names.len().try_into().unwrap_or(i64::MAX));
    });
}
