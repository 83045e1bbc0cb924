//! Objects that are being deleted and still exist, by what holds them.

use super::labels::{Level, Reason};
use prometheus_client::registry::{Registry, Unit};

/// How many there are, and when the first of them was deleted.
#[derive(Debug, Default)]
pub struct HeldMetrics {
    number: Level<Reason>,
    oldest: Level<Reason>,
}

impl HeldMetrics {
    /// Registers `<name>` and `<name>_oldest_seconds`.
    pub fn register(&self, name: &str, help: &str, registry: &mut Registry) {
        registry.register(name, help, self.number.clone());
        let (name, help) = (
            format!("{name}_oldest"),
            "Seconds since the deletion of the oldest of them",
        );
        registry.register_with_unit(name, help, Unit::Seconds, self.oldest.clone());
    }

    /// Objects that were deleted at these times are held for this reason. All times are in seconds
    /// since 1970.
    pub fn set(&self, reason: &'static str, deleted: &[i64], now: i64) {
        let number = deleted.len().try_into().unwrap_or(i64::MAX);
        let first = deleted.iter().min();
        // The API server's clock may be ahead of the local clock.
        let oldest = first.map_or(0, |first| (now - first).max(0));
        let reason = Reason { reason };
        self.number.get_or_create(&reason).set(number);
        self.oldest.get_or_create(&reason).set(oldest);
    }
}
