//! Reservations that this process has written and the watch has not delivered yet.

use crate::{
    cluster::Store,
    hashing::HashMap,
    objects::{CompactText, ObjectName, Volume},
};
use parking_lot::Mutex;

/// The reservations by claim. A watch may be silent for minutes.
#[derive(Debug, Default)]
pub struct Reserved(Mutex<HashMap<ObjectName, Written>>);

#[derive(Debug)]
struct Written {
    volume: ObjectName,
    /// The `resourceVersion` of the volume before the reservation.
    before: CompactText,
    /// The uid of the namespace of the claim.
    namespace_uid: Box<str>,
}

impl Written {
    /// Returns whether the watch still has the volume as it was before the reservation.
    fn is_undelivered(&self, volumes: &Store<Volume>) -> bool {
        let volume = volumes.get(&self.volume);
        volume.is_some_and(|volume| volume.resource_version == self.before)
    }
}

impl Reserved {
    /// Records that the volume, which the watch has delivered as `before`, is reserved for the claim
    /// of the namespace with this uid.
    pub fn record(
        &self,
        claim: &ObjectName,
        (volume, before): (&ObjectName, &Volume),
        namespace_uid: &str,
        volumes: &Store<Volume>,
    ) {
        let mut reserved = self.0.lock();
        reserved.retain(|_, written| written.is_undelivered(volumes));
        let written = Written {
            volume: volume.clone(),
            before: before.resource_version.clone(),
            namespace_uid: namespace_uid.into(),
        };
        reserved.insert(claim.clone(), written);
    }

    /// Returns the uid of the namespace of the claim for which a volume is reserved, as long as the
    /// watch has not delivered the reservation.
    pub fn namespace_uid(&self, claim: &ObjectName, volumes: &Store<Volume>) -> Option<Box<str>> {
        let reserved = self.0.lock();
        let written = reserved.get(claim)?;
        let undelivered = written.is_undelivered(volumes);
        undelivered.then(|| written.namespace_uid.clone())
    }
}
