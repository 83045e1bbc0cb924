//! Metrics of objects that are being deleted and still exist, by the reason that keeps them.

use super::{
    Registrar,
    labels::{Level, Reason},
};

/// Metrics of objects that are being deleted and still exist: their number for each reason that
/// keeps them, and when the first of them was deleted.
#[derive(Debug)]
pub struct HeldMetrics {
    number: Level<Reason>,
    oldest: Level<Reason>,
}

impl HeldMetrics {
    /// Registers the metrics `<name>` and `<name>_oldest_timestamp_seconds`.
    pub fn new(name: &str, help: &str, own: &mut Registrar<'_>) -> Self {
        Self {
            number: own.add(name, help),
            oldest: own.add_seconds(
                &format!("{name}_oldest_timestamp"),
                &format!(
                    "Earliest deletionTimestamp of the objects in volume_warden_{name}, in seconds since \
                     1970; 0 if there is none"
                ),
            ),
        }
    }

    /// Sets the objects that are kept for `reason`, by the times of their deletion in seconds since
    /// 1970.
    pub fn set(&self, reason: &'static str, deleted: &[i64]) {
        let number = deleted.len().try_into().unwrap_or(i64::MAX);
        let oldest = deleted.iter().min().copied().unwrap_or(0);
        let reason = Reason { reason };
        self.number.get_or_create(&reason).set(number);
        self.oldest.get_or_create(&reason).set(oldest);
    }
}
