//! The steps of users: what they create, change and delete.

mod calls;
mod choose;
mod objects;
mod rebinding;

use std::fmt;

pub use choose::{choose, expiring};
pub use rebinding::rebinding;

/// One step of a user. Objects are named `claim-1`, `pod-1` or `set-1`, in the namespace `ns`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Creates a claim of a class with the reclaim policy Delete, or Retain.
    CreateClaim {
        claim: u8,
        keeps: bool,
        labelled: bool,
    },
    /// Deletes a claim.
    DeleteClaim { claim: u8 },
    /// Removes the protection finalizer of a claim, as users do with a stuck claim.
    StripClaim { claim: u8 },
    /// Adds finalizers of other controllers before and after the protection finalizer of a claim.
    HoldClaim { claim: u8 },
    /// Removes the first of those finalizers.
    FreeClaim { claim: u8 },
    /// Creates many claims, which no pod uses.
    CreateMany,
    /// Deletes the claims of [`Step::CreateMany`].
    DeleteMany,
    /// Creates a pod that uses a claim; it may finish, and it may name its node.
    CreatePod {
        pod: u8,
        claim: u8,
        finishes: bool,
        on_node: bool,
    },
    /// Creates a pod that requests a claim by annotation.
    RequestClaim { pod: u8, claim: u8 },
    /// Deletes a pod, with or without a grace period.
    DeletePod { pod: u8, force: bool },
    /// Deletes the volume of a claim.
    DeleteVolume { claim: u8 },
    /// Sets the policy of the volume of a claim to Retain or to Delete.
    KeepVolume { claim: u8, keeps: bool },
    /// Requests the data of the deleted claim `claim` for a new claim with the number `to`. With
    /// `elsewhere`, a user of the namespace `other` also names the volume.
    Undelete { claim: u8, to: u8, elsewhere: bool },
    /// Requests the purge of the volume of a deleted claim.
    PurgeVolume { claim: u8 },
    /// Sets the announced expiry of a claim to now, as a user of its namespace can.
    HastenExpiry { claim: u8 },
    /// Creates a StatefulSet with these retention policies (Delete if true).
    CreateSet {
        set: u8,
        replicas: u8,
        deleted: bool,
        scaled: bool,
    },
    /// Scales a StatefulSet.
    ScaleSet { set: u8, replicas: u8 },
    /// Changes the retention policies of a StatefulSet.
    ChangePolicy {
        set: u8,
        deleted: bool,
        scaled: bool,
    },
    /// Deletes a StatefulSet with this propagation policy.
    DeleteSet { set: u8, cascade: &'static str },
    /// Creates a claim that may get the volume of the deleted claim of its name. It is in the
    /// namespace `other` if `elsewhere`, and opts out of getting the volume if `off`.
    CreateAgain {
        claim: u8,
        elsewhere: bool,
        off: bool,
    },
    /// Deletes the namespace.
    DeleteNamespace,
    /// Creates the namespace again.
    CreateNamespace,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}
