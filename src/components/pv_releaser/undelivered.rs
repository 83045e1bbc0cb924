//! Reservations that this process has written and the watch has not delivered yet.

use crate::{
    cluster::Store,
    hashing::HashMap,
    objects::{ObjectName, Volume},
};
use parking_lot::Mutex;
use std::sync::Arc;

/// The reservations by claim. A watch may be silent for minutes.
#[derive(Debug, Default)]
pub struct UndeliveredReservations(Mutex<HashMap<ObjectName, Undelivered>>);

/// A reservation that the watch has not delivered yet.
#[derive(Clone, Debug)]
pub struct Undelivered {
    /// The name of the reserved volume.
    pub name: ObjectName,
    /// The volume before the reservation.
    pub volume: Arc<Volume>,
    /// The uid of the namespace of the claim.
    pub namespace_uid: Box<str>,
}

impl Undelivered {
    /// Returns whether the watch still has the volume as it was before the reservation.
    fn is_undelivered(&self, volumes: &Store<Volume>) -> bool {
        let volume = volumes.get(&self.name);
        volume.is_some_and(|volume| volume.resource_version == self.volume.resource_version)
    }
}

impl UndeliveredReservations {
    /// Records that the volume, which the watch has delivered as `before`, is reserved for the
    /// claim of the namespace with this uid.
    pub fn record(
        &self,
        claim: &ObjectName,
        (volume, before): (&ObjectName, &Arc<Volume>),
        namespace_uid: &str,
        volumes: &Store<Volume>,
    ) {
        let mut reserved = self.0.lock();
        reserved.retain(|_, written| written.is_undelivered(volumes));
        let written = Undelivered {
            name: volume.clone(),
            volume: before.clone(),
            namespace_uid: namespace_uid.into(),
        };
        reserved.insert(claim.clone(), written);
    }

    /// Returns the reservation for the claim, as long as the watch has not delivered it.
    pub fn undelivered(&self, claim: &ObjectName, volumes: &Store<Volume>) -> Option<Undelivered> {
        let reserved = self.0.lock();
        let written = reserved.get(claim)?;
        written.is_undelivered(volumes).then(|| written.clone())
    }
}
