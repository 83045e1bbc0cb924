//! Deleted claims and volumes that are still there.

use super::{
    Metrics,
    labels::{Level, Reason},
};
use prometheus_client::registry::{Registry, Unit};

#[derive(Debug, Default)]
pub(super) struct ProtectionMetrics {
    claims: Held,
    volumes: Held,
}

#[derive(Debug, Default)]
struct Held {
    number: Level<Reason>,
    oldest: Level<Reason>,
}

impl ProtectionMetrics {
    pub(super) fn register(&self, registry: &mut Registry) {
        let claims = "Claims that are being deleted and still there, by what holds them";
        self.claims.register("claims_held", claims, registry);
        let volumes = "Volumes that are being deleted and still there, by what holds them";
        self.volumes.register("volumes_held", volumes, registry);
    }
}

impl Held {
    fn register(&self, name: &str, help: &str, registry: &mut Registry) {
        registry.register(name, help, self.number.clone());
        let (name, help) = (
            format!("{name}_oldest"),
            "How long ago the first of them was deleted",
        );
        registry.register_with_unit(name, help, Unit::Seconds, self.oldest.clone());
    }

    fn set(&self, reason: &'static str, deleted: &[i64], now: i64) {
        let number = deleted.len().try_into().unwrap_or(i64::MAX);
        let first = deleted.iter().min();
        // The API server's clock may be ahead of ours.
        let oldest = first.map_or(0, |first| (now - first).max(0));
        let reason = Reason { reason };
        self.number.get_or_create(&reason).set(number);
        self.oldest.get_or_create(&reason).set(oldest);
    }
}

impl Metrics {
    /// Claims were deleted at these times, and are held for this reason. All times are in seconds since 1970.
    pub fn claims_held(&self, reason: &'static str, deleted: &[i64], now: i64) {
        self.protection.claims.set(reason, deleted, now);
    }

    /// The same of volumes.
    pub fn volumes_held(&self, reason: &'static str, deleted: &[i64], now: i64) {
        self.protection.volumes.set(reason, deleted, now);
    }
}
