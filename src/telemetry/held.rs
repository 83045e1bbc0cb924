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
    /// Registers `<name>` and `<name>_oldest_timestamp_seconds`.
    pub fn register(&self, name: &str, help: &str, registry: &mut Registry) {
        registry.register(name, help, self.number.clone());
        let (name, help) = (
            format!("{name}_oldest_timestamp"),
            "When the first of them was deleted, in seconds since 1970; 0 without one",
        );
        registry.register_with_unit(name, help, Unit::Seconds, self.oldest.clone());
    }

    /// Objects that were deleted at these times, in seconds since 1970, are held for this reason.
    pub fn set(&self, reason: &'static str, deleted: &[i64]) {
        let number = deleted.len().try_into().unwrap_or(i64::MAX);
        let oldest = deleted.iter().min().copied().unwrap_or(0);
        let reason = Reason { reason };
        self.number.get_or_create(&reason).set(number);
        self.oldest.get_or_create(&reason).set(oldest);
    }
}
