//! How much the trash of each namespace holds, so that it can be limited.

use super::recorded::record_in_trash;
use crate::{
    cluster::Change,
    hashing::HashMap,
    objects::{Volume, quantity, trash::OriginalPolicy},
};
use parking_lot::Mutex;

/// The total capacity of the volumes in the trash that had the policy Delete, in bytes, by the
/// namespace of the deleted claim.
pub struct Usage {
    limit: u64,
    bytes: Mutex<HashMap<Box<str>, u64>>,
}

impl Usage {
    /// Creates an empty sum for every namespace. With the limit `u64::MAX`, no namespace reaches
    /// it.
    pub fn new(limit: u64) -> Self {
        Self {
            limit,
            bytes: Mutex::default(),
        }
    }

    /// Updates the sum of the namespace after a change of a volume.
    pub fn update(&self, change: &Change<'_, Volume>) {
        let before = change.old.and_then(|volume| counted(volume));
        let now = change.new.and_then(|volume| counted(volume));
        if before == now {
            return;
        }
        let mut bytes = self.bytes.lock();
        if let Some((namespace, capacity)) = before
            && let Some(sum) = bytes.get_mut(namespace)
        {
            *sum = sum.saturating_sub(capacity);
            if *sum == 0 {
                bytes.remove(namespace);
            }
        }
        if let Some((namespace, capacity)) = now {
            let sum = bytes.entry(namespace.into()).or_default();
            *sum = sum.saturating_add(capacity);
        }
    }

    /// Returns whether the trash of the namespace has reached the limit.
    pub fn is_full(&self, namespace: &str) -> bool {
        self.limit != u64::MAX
            && self
                .bytes
                .lock()
                .get(namespace)
                .copied()
                .unwrap_or_default()
                >= self.limit
    }
}

/// The namespace and the capacity of a volume in the trash. A volume that had the policy Retain
/// would be kept without Volume Warden, too, so it does not count.
fn counted(volume: &Volume) -> Option<(&str, u64)> {
    let record = record_in_trash(volume)?;
    let counts = record.policy == OriginalPolicy::Delete && record.deleted_at.is_some();
    let capacity = &volume.trash.as_deref()?.capacity;
    // The capacity of any volume in bytes fits into a `u64`.
    counts.then_some((
        record.claim.namespace.as_str(),
        quantity::of(capacity) as u64,
    ))
}
