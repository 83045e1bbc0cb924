//! Chooses the parked volume that a claim gets.

use crate::objects::{
    ObjectName, Volume,
    fit::{ClaimRequirements, VolumeProperties},
    reuse::Record,
};
use std::sync::Arc;

type NamedVolume = (ObjectName, Arc<Volume>);

/// Returns whether the volume's record names the namespace with this uid.
pub(super) fn is_of(volume: &Volume, namespace_uid: &str) -> bool {
    let of = |record: &Record| &*record.namespace_uid == namespace_uid;
    volume.record().is_some_and(of)
}

/// Returns whether a parked or reserved volume fits the claim.
pub(super) fn fits(name: &ObjectName, volume: &Volume, requirements: &ClaimRequirements) -> bool {
    properties(volume)
        .is_some_and(|properties| properties.fits(&name.name, &volume.class, requirements))
}

/// Returns whether a reserved volume stays reserved for this claim, which is about to be stored in
/// the namespace with this uid. If Volume Warden made the reservation, the volume must fit the
/// claim: it may have been made for another claim of this name, which was not stored.
pub(super) fn stays_reserved(
    (name, volume): &NamedVolume,
    requirements: &ClaimRequirements,
    namespace_uid: &str,
) -> bool {
    let by_others = volume.reserved_at().is_none();
    is_of(volume, namespace_uid) && (by_others || fits(name, volume, requirements))
}

/// Returns the parked volumes of the namespace with this uid that fit the claim, the smallest
/// first.
pub(super) fn fitting(
    parked: Vec<NamedVolume>,
    requirements: &ClaimRequirements,
    namespace_uid: &str,
) -> Vec<NamedVolume> {
    let mut fitting = parked;
    fitting
        .retain(|(name, volume)| is_of(volume, namespace_uid) && fits(name, volume, requirements));
    let size = |volume: &Volume| properties(volume).map_or(0.0, |properties| properties.capacity);
    fitting.sort_by(|(name, one), (other, two)| {
        let size = size(one).total_cmp(&size(two));
        size.then_with(|| name.cmp(other))
    });
    fitting
}

fn properties(volume: &Volume) -> Option<&VolumeProperties> {
    volume.reuse.as_ref()?.properties.as_ref()
}
