//! The fields of a claim that few claims have.

use super::{
    CompactText, ManagedBy, claim_trash::ClaimTrash, expiry::ClaimExpiry, stateful_set::Label,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use std::{ops::Deref, sync::LazyLock};

/// The fields of a claim that few claims have. A claim without any of them uses 8 bytes for all of
/// them together.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rare(Option<Box<RareFields>>);

/// The fields of a claim that few claims have, or their defaults.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RareFields {
    /// The `deletionTimestamp` in seconds since 1970; 0 if it is not set.
    pub deleted: i64,
    /// The owner references of the claim, in the order of the object.
    pub owners: Box<[OwnerReference]>,
    /// The labels of the claim, sorted. They are kept only if the name does not determine the
    /// StatefulSet that the claim belongs to.
    pub labels: Box<[Label]>,
    /// The labels that name the installation that manages the claim or its volume.
    pub managed_by: Option<Box<ManagedBy>>,
    /// The value of [`SCALED_WITH`](super::claim::SCALED_WITH).
    pub scaled_with: Option<CompactText>,
    /// The marker of a claim that `pvc-provisioner` created for a pod at admission.
    pub awaiting_pod: Option<AwaitingPod>,
    /// The values of the annotations about the trash, if the claim has any.
    pub trash: Option<Box<ClaimTrash>>,
    /// The values of the annotations about expiry, if the claim has any.
    pub expiry: Option<Box<ClaimExpiry>>,
    /// The capacity in bytes of a claim whose condition `Unused` is True; 0 for any other claim.
    pub unused_bytes: f64,
}

impl RareFields {
    /// Returns whether the claim has the annotation [`EXPIRES_AT`](super::expiry::EXPIRES_AT), with
    /// any value.
    pub fn is_announced(&self) -> bool {
        let expiry = self.expiry.as_deref();
        expiry.is_some_and(|expiry| expiry.at.is_some())
    }
}

/// The marker of a claim that `pvc-provisioner` created for a pod at admission.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AwaitingPod {
    /// The value of [`AWAITING_POD`](super::claim::AWAITING_POD).
    pub mark: Box<str>,
    /// When the claim was created, in seconds since 1970.
    pub created: i64,
}

impl From<RareFields> for Rare {
    fn from(fields: RareFields) -> Self {
        Self((fields != RareFields::default()).then(|| Box::new(fields)))
    }
}

impl Deref for Rare {
    type Target = RareFields;

    fn deref(&self) -> &RareFields {
        static NONE: LazyLock<RareFields> = LazyLock::new(RareFields::default);
        self.0.as_deref().unwrap_or(&NONE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_claim_with_such_a_field_keeps_them() {
        let none = Rare::from(RareFields::default());
        assert_eq!((none.0.is_none(), &*none), (true, &RareFields::default()));
        let deleted = RareFields {
            deleted: 7,
            ..RareFields::default()
        };
        assert_eq!(*Rare::from(deleted.clone()), deleted);
    }
}
