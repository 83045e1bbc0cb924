//! Chooses the parked volume that a claim gets.

use crate::objects::{
    ObjectName, Volume,
    fit::{Need, Offer},
    reuse::Record,
};
use std::sync::Arc;

type Named = (ObjectName, Arc<Volume>);

/// Returns whether the volume's record names the namespace with this uid.
pub(super) fn is_of(volume: &Volume, namespace_uid: &str) -> bool {
    let of = |record: &Record| &*record.namespace_uid == namespace_uid;
    volume.record().is_some_and(of)
}

/// Returns whether a parked or reserved volume fits the claim.
pub(super) fn fits(name: &ObjectName, volume: &Volume, need: &Need) -> bool {
    offer(volume).is_some_and(|offer| offer.fits(&name.name, &volume.class, need))
}

/// Returns whether a reserved volume stays reserved for this claim, which is about to be stored in
/// the namespace with this uid. If Volume Warden made the reservation, the volume must fit the
/// claim: it may have been made for another claim of this name, which was not stored.
pub(super) fn stays_reserved((name, volume): &Named, need: &Need, namespace_uid: &str) -> bool {
    let by_others = volume.reserved_at().is_none();
    is_of(volume, namespace_uid) && (by_others || fits(name, volume, need))
}

/// Returns the parked volumes of the namespace with this uid that fit the claim, the smallest
/// first.
pub(super) fn fitting(parked: Vec<Named>, need: &Need, namespace_uid: &str) -> Vec<Named> {
    let mut fitting = parked;
    fitting.retain(|(name, volume)| is_of(volume, namespace_uid) && fits(name, volume, need));
    let size = |volume: &Volume| offer(volume).map_or(0.0, |offer| offer.capacity);
    fitting.sort_by(|(name, one), (other, two)| {
        let size = size(one).total_cmp(&size(two));
        size.then_with(|| name.cmp(other))
    });
    fitting
}

fn offer(volume: &Volume) -> Option<&Offer> {
    volume.reuse.as_ref()?.offer.as_ref()
}
