//! Chooses the parked volume that a claim gets.

use crate::objects::{ObjectName, Volume, fit::Need, reuse::Record};
use std::sync::Arc;

type Named = (ObjectName, Arc<Volume>);

/// Returns whether the volume's record names the namespace with this uid.
pub(super) fn is_of(volume: &Volume, namespace_uid: &str) -> bool {
    let of = |record: &Record| &*record.namespace_uid == namespace_uid;
    volume.record().is_some_and(of)
}

/// Returns the parked volumes of the namespace with this uid that fit the claim, the smallest
/// first.
pub(super) fn fitting(parked: Vec<Named>, need: &Need, namespace_uid: &str) -> Vec<Named> {
    let offer = |volume: &Volume| volume.reuse.as_ref().and_then(|all| all.offer.clone());
    let fits = |(name, volume): &Named| {
        let fits = offer(volume).is_some_and(|it| it.fits(&name.name, &volume.class, need));
        fits && is_of(volume, namespace_uid)
    };
    let mut fitting: Vec<_> = parked.into_iter().filter(fits).collect();
    let size = |volume: &Volume| offer(volume).map_or(0.0, |offer| offer.capacity);
    fitting.sort_by(|(name, one), (other, two)| {
        let size = size(one).total_cmp(&size(two));
        size.then_with(|| name.cmp(other))
    });
    fitting
}
