//! Compares a volume with a claim, as Kubernetes does before it binds them.
//!
//! Source: `FindMatchingVolume` in `k8s.io/component-helpers/storage/volume` and
//! `findBestMatchForClaim` in `pkg/controller/volume/persistentvolume/index.go` of Kubernetes.

use crate::{
    objects::{
        fit::class_of,
        quantity,
        reuse::{self, Record},
    },
    why::read::{PersistentVolume, PersistentVolumeClaim},
};
use k8s_openapi::{
    api::core::v1::{PersistentVolumeClaimSpec, PersistentVolumeSpec},
    apimachinery::pkg::apis::meta::v1::LabelSelectorRequirement,
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

/// How a volume differs from what a claim asks for.
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
    let class = class_of(volume.annotations(), has.storage_class_name.as_ref());
    if class != class_of(claim.annotations(), wants.storage_class_name.as_ref()) {
        return Some(Difference::Class(class));
    }
    if let Some(lacking) = lacking(has, wants) {
        return Some(lacking);
    }
    let selected = wants
        .selector
        .iter()
        .flat_map(|selector| selector.match_labels.iter().flatten());
    let mut unselected = selected.filter(|(key, value)| volume.labels().get(*key) != Some(*value));
    let expressions = wants
        .selector
        .iter()
        .flat_map(|selector| selector.match_expressions.iter().flatten());
    let mut expressions = expressions.filter(|expression| self::unselected(volume, expression));
    if let Some(expression) = expressions.next() {
        return Some(Difference::Expression {
            key: expression.key.clone(),
            operator: expression.operator.clone(),
        });
    }
    unselected.next().map(|(key, value)| Difference::Label {
        key: key.clone(),
        value: value.clone(),
    })
}

/// The difference between the VolumeAttributesClasses. No class equals the empty class.
fn unlike_attributes(
    has: &PersistentVolumeSpec,
    wants: &PersistentVolumeClaimSpec,
) -> Option<Difference> {
    let has = has.volume_attributes_class_name.clone().unwrap_or_default();
    let wanted = wants.volume_attributes_class_name.clone();
    let wanted = wanted.unwrap_or_default();
    (has != wanted).then_some(Difference::AttributesClass { has, wanted })
}

/// What the claim requests and the volume lacks: capacity, access mode, volume mode or
/// VolumeAttributesClass. These prevent the binding even if the volume is reserved for the claim,
/// whereas a different StorageClass or label does not.
pub(super) fn lacking(
    has: &PersistentVolumeSpec,
    wants: &PersistentVolumeClaimSpec,
) -> Option<Difference> {
    let size = has
        .capacity
        .as_ref()
        .and_then(|capacity| capacity.get("storage"));
    let wanted = wants
        .resources
        .as_ref()
        .and_then(|each| each.requests.as_ref()?.get("storage"));
    if let (Some(size), Some(wanted)) = (size, wanted)
        && quantity::of(&size.0) < quantity::of(&wanted.0)
    {
        return Some(Difference::Capacity {
            has: size.0.clone(),
            wanted: wanted.0.clone(),
        });
    }
    let modes = has.access_modes.as_deref().unwrap_or_default();
    let missing = wants
        .access_modes
        .iter()
        .flatten()
        .find(|mode| !modes.contains(mode));
    if let Some(mode) = missing {
        return Some(Difference::AccessMode(mode.clone()));
    }
    let mode = |mode: &Option<String>| mode.clone().unwrap_or_else(|| "Filesystem".to_owned());
    if mode(&has.volume_mode) != mode(&wants.volume_mode) {
        return Some(Difference::VolumeMode(mode(&has.volume_mode)));
    }
    unlike_attributes(has, wants)
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
/// parked it: its `claimRef` then names a claim that no client can create. None if the volume is not
/// parked.
pub(super) fn parked_for(volume: &PersistentVolume) -> Option<Record> {
    let claim = volume.spec.as_ref()?.claim_ref.as_ref()?.name.as_deref()?;
    reuse::parked_for(volume.metadata.uid.as_deref()?, claim, volume.annotations())
}

/// Whether one of the claim's expressions does not select the volume.
fn unselected(volume: &PersistentVolume, expression: &LabelSelectorRequirement) -> bool {
    let label = volume.labels().get(&expression.key);
    let values = expression.values.as_deref().unwrap_or_default();
    let among = label.is_some_and(|label| values.contains(label));
    match expression.operator.as_str() {
        "In" => !among,
        "NotIn" => among,
        "Exists" => label.is_none(),
        "DoesNotExist" => label.is_some(),
        _ => false,
    }
}
