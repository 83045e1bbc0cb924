//! Whether a volume fits a claim.
//!
//! Source: `FindMatchingVolume` in `k8s.io/component-helpers/storage/volume` and `findBestMatchForClaim` in
//! `pkg/controller/volume/persistentvolume/index.go` of Kubernetes.

use super::quantity;
use crate::why::read::{PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::{
    api::core::v1::{PersistentVolumeClaimSpec, PersistentVolumeSpec},
    apimachinery::pkg::apis::meta::v1::LabelSelectorRequirement,
    jiff::Timestamp,
};
use kube::ResourceExt;
use std::fmt;

/// Why it is not bound to the claim.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Misfit {
    /// It fits, but is being deleted, since then.
    Deleting(Timestamp),
    /// It fits, but another claim is to have it: `shop/data`.
    Reserved(String),
    /// It fits, and was an earlier claim's of the same name: that one's uid.
    Former(String),
    /// It fits, and another claim is bound to it.
    Taken(String),
    /// It does not fit: how it differs.
    Unlike(Difference),
}

/// How a volume differs from what a claim asks for.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Difference {
    /// The volume or the claim has no spec.
    NoSpec,
    /// The volume's StorageClass.
    Class(String),
    /// The volume's capacity and the claim's request.
    Capacity { has: String, wanted: String },
    /// An access mode that the volume does not have.
    AccessMode(String),
    /// The volume's mode: `Block`.
    VolumeMode(String),
    /// An expression of the claim's selector.
    Expression { key: String, operator: String },
    /// A label of the claim's selector.
    Label { key: String, value: String },
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSpec => write!(f, "has no spec"),
            Self::Class(class) => write!(f, "is of the class {class:?}"),
            Self::Capacity { has, wanted } => write!(f, "has {has} where {wanted} are wanted"),
            Self::AccessMode(mode) => write!(f, "has no access mode {mode}"),
            Self::VolumeMode(mode) => write!(f, "is a {mode}"),
            Self::Expression { key, operator } => {
                write!(f, "is not selected by the label {key} ({operator})")
            }
            Self::Label { key, value } => write!(f, "lacks the label {key}={value}"),
        }
    }
}

/// Whether the claim could have the volume.
pub(super) fn fits(volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> Result<(), Misfit> {
    let (Some(has), Some(wants)) = (&volume.spec, &claim.spec) else {
        return Err(Misfit::Unlike(Difference::NoSpec));
    };
    if let Some(unlike) = unlike(volume, has, wants) {
        return Err(Misfit::Unlike(unlike));
    }
    let deleted = volume.metadata.deletion_timestamp.as_ref();
    match (taken(has, claim), deleted) {
        // Nothing makes a volume that is being deleted the claim's.
        (None | Some(Misfit::Former(_)), Some(deleted)) => Err(Misfit::Deleting(deleted.0)),
        (Some(taken), _) => Err(taken),
        (None, None) => Ok(()),
    }
}

fn unlike(
    volume: &PersistentVolume,
    has: &PersistentVolumeSpec,
    wants: &PersistentVolumeClaimSpec,
) -> Option<Difference> {
    let class = |class: &Option<String>| class.clone().unwrap_or_default();
    if class(&has.storage_class_name) != class(&wants.storage_class_name) {
        return Some(Difference::Class(class(&has.storage_class_name)));
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

/// What a claim asks for and the volume does not have, also where the volume is reserved for it: of
/// what else differs, class and labels, a reservation takes no notice.
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
    None
}

/// That another claim than this one has it, or is to have it.
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
