//! Compares a volume with a claim, as Kubernetes does before it binds them.
//!
//! Source: `FindMatchingVolume` in `k8s.io/component-helpers/storage/volume` and
//! `findBestMatchForClaim` in `pkg/controller/volume/persistentvolume/index.go` of Kubernetes.

use crate::{
    objects::{
        fit::{
            Unselected, attributes_class, class_of, missing_mode, requested, unselected,
            volume_mode,
        },
        quantity,
        reuse::{self, Record},
    },
    why::read::{PersistentVolume, PersistentVolumeClaim},
};
use k8s_openapi::{
    api::core::v1::{PersistentVolumeClaimSpec, PersistentVolumeSpec},
    jiff::Timestamp,
};
use kube::ResourceExt;
use std::fmt;

/// Why the volume cannot be bound to the claim: it does not match, is being deleted, or belongs to
/// another claim, which may be an earlier claim of the same name.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Misfit {
    /// The volume fits, but has been being deleted since this time.
    Deleting(Timestamp),
    /// The volume fits, but is reserved for another claim: `shop/data`.
    Reserved(String),
    /// The volume fits, but belonged to an earlier claim of the same name, with this uid.
    Former(String),
    /// The volume fits, but another claim is or was bound to it, so that `claimRef` contains the
    /// uid of that claim: `shop/data`.
    Taken(String),
    /// The volume does not fit, because of this difference.
    Unlike(Difference),
}

/// How a volume differs from what a claim requests.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Difference {
    /// The volume or the claim has no spec.
    NoSpec,
    /// The StorageClass differs; this is that of the volume.
    Class(String),
    /// The capacity of the volume is less than the claim requests.
    Capacity { has: String, wanted: String },
    /// The volume does not offer this access mode of the claim.
    AccessMode(String),
    /// The volume mode differs; this is that of the volume, such as `Block`.
    VolumeMode(String),
    /// The VolumeAttributesClass differs. Empty: the volume or the claim has none.
    AttributesClass { has: String, wanted: String },
    /// The labels of the volume do not match this expression of the claim's selector.
    Expression { key: String, operator: String },
    /// The volume lacks this label of the claim's selector.
    Label { key: String, value: String },
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSpec => write!(f, "has no spec"),
            Self::Class(class) => write!(f, "has the StorageClass {class:?}"),
            Self::Capacity { has, wanted } => {
                write!(
                    f,
                    "has a capacity of {has}, but the claim requests {wanted}"
                )
            }
            Self::AccessMode(mode) => write!(f, "does not offer the access mode {mode}"),
            Self::VolumeMode(mode) => write!(f, "has the volumeMode {mode}"),
            Self::AttributesClass { has, wanted } => {
                write!(
                    f,
                    "has the VolumeAttributesClass {has:?}, but the claim requests {wanted:?}"
                )
            }
            Self::Expression { key, operator } => {
                write!(
                    f,
                    "does not match the claim's selector for the label {key} ({operator})"
                )
            }
            Self::Label { key, value } => {
                write!(f, "lacks the label {key}={value} of the claim's selector")
            }
        }
    }
}

/// Checks whether Kubernetes could bind the claim to the volume.
///
/// # Errors
/// The reason why it could not.
pub(super) fn fits(volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> Result<(), Misfit> {
    let (Some(has), Some(wants)) = (&volume.spec, &claim.spec) else {
        return Err(Misfit::Unlike(Difference::NoSpec));
    };
    if let Some(unlike) = unlike((volume, has), (claim, wants)) {
        return Err(Misfit::Unlike(unlike));
    }
    let deleted = volume.metadata.deletion_timestamp.as_ref();
    match (taken(has, claim), deleted) {
        // A volume that is being deleted is never bound, so its deletion is reported, and not its
        // earlier claim.
        (None | Some(Misfit::Former(_)), Some(deleted)) => Err(Misfit::Deleting(deleted.0)),
        (Some(taken), _) => Err(taken),
        (None, None) => Ok(()),
    }
}

fn unlike(
    (volume, has): (&PersistentVolume, &PersistentVolumeSpec),
    (claim, wants): (&PersistentVolumeClaim, &PersistentVolumeClaimSpec),
) -> Option<Difference> {
    differing((volume, has), (claim, wants))
        .or_else(|| unselected(wants, volume.labels()).map(Difference::from))
}

/// How the volume differs from what a claim requests, apart from the labels in its selector.
/// Kubernetes compares no labels if the claim names the volume.
///
/// Source: `checkVolumeSatisfyClaim` in `pkg/controller/volume/persistentvolume/pv_controller.go`.
pub(super) fn differing(
    (volume, has): (&PersistentVolume, &PersistentVolumeSpec),
    (claim, wants): (&PersistentVolumeClaim, &PersistentVolumeClaimSpec),
) -> Option<Difference> {
    let class = class_of(volume.annotations(), has.storage_class_name.as_ref());
    if class != class_of(claim.annotations(), wants.storage_class_name.as_ref()) {
        return Some(Difference::Class(class));
    }
    lacking(has, wants)
}

impl From<Unselected<'_>> for Difference {
    fn from(unselected: Unselected<'_>) -> Self {
        match unselected {
            Unselected::Expression(expression) => Self::Expression {
                key: expression.key.clone(),
                operator: expression.operator.clone(),
            },
            Unselected::Label(key, value) => Self::Label {
                key: key.to_owned(),
                value: value.to_owned(),
            },
        }
    }
}

/// What the claim requests and the volume lacks: capacity, access mode, volume mode or
/// VolumeAttributesClass. These prevent the binding even if the volume is reserved for the claim,
/// unless the claim names the volume, whereas a different StorageClass or label does not.
pub(super) fn lacking(
    has: &PersistentVolumeSpec,
    wants: &PersistentVolumeClaimSpec,
) -> Option<Difference> {
    let size = has.capacity.as_ref();
    let size = size.and_then(|capacity| capacity.get("storage"));
    if let (Some(size), Some(wanted)) = (size, requested(wants))
        && quantity::of(&size.0) < quantity::of(&wanted.0)
    {
        return Some(Difference::Capacity {
            has: size.0.clone(),
            wanted: wanted.0.clone(),
        });
    }
    let modes = has.access_modes.as_deref().unwrap_or_default();
    if let Some(mode) = missing_mode(modes, wants) {
        return Some(Difference::AccessMode(mode.clone()));
    }
    let mode = volume_mode(has.volume_mode.as_ref());
    if mode != volume_mode(wants.volume_mode.as_ref()) {
        return Some(Difference::VolumeMode(mode.to_owned()));
    }
    let own = attributes_class(has.volume_attributes_class_name.as_ref());
    let wanted = attributes_class(wants.volume_attributes_class_name.as_ref());
    (own != wanted).then(|| Difference::AttributesClass {
        has: own.to_owned(),
        wanted: wanted.to_owned(),
    })
}

/// Why the volume's `claimRef` prevents the binding to this claim; none if the volume has no
/// `claimRef`, or it names this claim.
pub(super) fn taken(has: &PersistentVolumeSpec, claim: &PersistentVolumeClaim) -> Option<Misfit> {
    let reference = has.claim_ref.as_ref()?;
    let (namespace, name) = (reference.namespace.clone()?, reference.name.clone()?);
    let uid = reference.uid.clone().filter(|uid| !uid.is_empty());
    let same = Some(&namespace) == claim.namespace().as_ref() && name == claim.name_any();
    match (same, uid) {
        (true, Some(uid)) if claim.uid().as_ref() != Some(&uid) => Some(Misfit::Former(uid)),
        (true, _) => None,
        (false, None) => Some(Misfit::Reserved(format!("{namespace}/{name}"))),
        (false, Some(_)) => Some(Misfit::Taken(format!("{namespace}/{name}"))),
    }
}

/// The record of the namespace whose next claim that the volume fits gets it, if pv-releaser has
/// parked it: its `claimRef` then names a claim that no client can create. None if the volume is
/// not parked.
pub(super) fn parked_for(volume: &PersistentVolume) -> Option<Record> {
    let claim = volume.spec.as_ref()?.claim_ref.as_ref()?.name.as_deref()?;
    reuse::parked_for(volume.metadata.uid.as_deref()?, claim, volume.annotations())
}
