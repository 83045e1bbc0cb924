//! The rule for the reservations of volumes: whether a volume stays reserved for a claim.

use super::fitting::fits;
use crate::objects::{ObjectName, Volume, fit::ClaimRequirements, reuse::Record};
use k8s_openapi::jiff::SignedDuration;
use std::time::Duration;

/// How long a reservation waits for its claim to be stored.
const RESERVATION_TIMEOUT: SignedDuration = SignedDuration::from_mins(1);

/// The reservation of a volume for a claim, by the volume's `claimRef`, and the live state of the
/// objects that decide whether it stays.
#[derive(Clone, Copy, Debug)]
pub struct Reservation<'a> {
    /// The name of the volume. A claim whose `volumeName` is another one cannot get the volume.
    pub name: &'a ObjectName,
    /// The reserved volume.
    pub volume: &'a Volume,
    /// The namespace of the volume's earlier claim.
    pub record: &'a Record,
    /// The uid of the present namespace with the name in the record, if it exists and is not being
    /// deleted.
    pub namespace: Option<&'a str>,
    /// How long ago Volume Warden made the reservation, by the clock of the API server; none if
    /// `claimRef` remains from a release in the mode `soft`, or an administrator has set it.
    pub age: Option<SignedDuration>,
    /// The claim that the volume is reserved for, if it exists.
    pub claim: Option<&'a ClaimRequirements>,
}

/// What the rule decides about a reservation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The volume stays reserved.
    Keep,
    /// Keep the reservation, and decide again after this time.
    Later(Duration),
    /// Park the volume: it waits for another claim of its namespace.
    Park,
}

/// Decides whether a volume stays reserved or is parked again. It is parked at once if the
/// namespace of its earlier claim is being deleted, or was deleted or recreated, or if it is the
/// second volume that was provisioned for a claim. If Volume Warden made the reservation,
/// the volume is also parked at once if it does not fit the stored claim, and a minute later if the
/// claim does not exist or names another volume.
///
/// A reservation that was made more than a minute in the future has a wrong time, so it counts as
/// an old one. The clocks of two API servers may differ by less.
pub fn decide_reservation(view: &Reservation<'_>) -> Verdict {
    if view.namespace != Some(&*view.record.namespace_uid) {
        return Verdict::Park;
    }
    let Some(age) = view.age else {
        return match view.claim {
            Some(claim) if view.was_provisioned_twice(claim) => Verdict::Park,
            _ => Verdict::Keep,
        };
    };
    match view.claim {
        Some(claim) if view.is_misfit(claim) => Verdict::Park,
        _ if age.abs() < RESERVATION_TIMEOUT => Verdict::Later(left(age)),
        Some(claim) if !view.names_other_volume(claim) => Verdict::Keep,
        _ => Verdict::Park,
    }
}

fn left(age: SignedDuration) -> Duration {
    let left = RESERVATION_TIMEOUT
        .saturating_sub(age)
        .min(RESERVATION_TIMEOUT);
    Duration::try_from(left).unwrap_or_default()
}

impl Reservation<'_> {
    /// Returns whether the claim is not bound yet, and requires something else than the volume
    /// offers: the volume was reserved for an earlier claim of this name, which was not stored.
    fn is_misfit(&self, claim: &ClaimRequirements) -> bool {
        claim.volume_name().is_empty() && !fits(self.name, self.volume, claim)
    }

    /// Returns whether the volume was provisioned for this claim, which is bound to another one.
    /// kube-controller-manager then removes the uid from `claimRef`, as from a reservation. The
    /// next claim of the name would get this volume, which is empty.
    ///
    /// Source: `syncVolume` and `unbindVolume` in
    /// `pkg/controller/volume/persistentvolume/pv_controller.go`.
    fn was_provisioned_twice(&self, claim: &ClaimRequirements) -> bool {
        self.record.claim_uid == *claim.uid && self.names_other_volume(claim)
    }

    fn names_other_volume(&self, claim: &ClaimRequirements) -> bool {
        !["", &*self.name.name].contains(&claim.volume_name())
    }
}
