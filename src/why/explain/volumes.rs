//! Whether a volume fits a claim.
//!
//! Source: `FindMatchingVolume` in `k8s.io/component-helpers/storage/volume` and `findBestMatchForClaim` in
//! `pkg/controller/volume/persistentvolume/index.go` of Kubernetes.

use super::quantity;
use k8s_openapi::{
    api::core::v1::{
        PersistentVolume, PersistentVolumeClaim, PersistentVolumeClaimSpec, PersistentVolumeSpec,
    },
    jiff::Timestamp,
};
use kube::ResourceExt;

/// Why it is not bound to the claim.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Misfit {
    /// It fits, but is being deleted, since then.
    Deleting(Timestamp),
    /// It fits, but another claim has it, or is to have it: `shop/data`.
    Reserved(String),
    /// It does not fit: how it differs.
    Unlike(String),
}

/// Whether the claim could have the volume.
pub(super) fn fits(volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> Result<(), Misfit> {
    let (Some(has), Some(wants)) = (&volume.spec, &claim.spec) else {
        return Err(Misfit::Unlike("is not told".to_owned()));
    };
    if let Some(unlike) = unlike(volume, has, wants) {
        return Err(Misfit::Unlike(unlike));
    }
    if let Some(other) = reserved(has, claim) {
        return Err(Misfit::Reserved(other));
    }
    match &volume.metadata.deletion_timestamp {
        Some(deleted) => Err(Misfit::Deleting(deleted.0)),
        None => Ok(()),
    }
}

fn unlike(
    volume: &PersistentVolume,
    has: &PersistentVolumeSpec,
    wants: &PersistentVolumeClaimSpec,
) -> Option<String> {
    let class = |class: &Option<String>| class.clone().unwrap_or_default();
    if class(&has.storage_class_name) != class(&wants.storage_class_name) {
        return Some(format!(
            "is of the class {:?}",
            class(&has.storage_class_name)
        ));
    }
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
        return Some(format!("has {} where {} are wanted", size.0, wanted.0));
    }
    let modes = has.access_modes.as_deref().unwrap_or_default();
    let missing = wants
        .access_modes
        .iter()
        .flatten()
        .find(|mode| !modes.contains(mode));
    if let Some(mode) = missing {
        return Some(format!("has no access mode {mode}"));
    }
    let mode = |mode: &Option<String>| mode.clone().unwrap_or_else(|| "Filesystem".to_owned());
    if mode(&has.volume_mode) != mode(&wants.volume_mode) {
        return Some(format!("is a {}", mode(&has.volume_mode)));
    }
    let selected = wants
        .selector
        .iter()
        .flat_map(|selector| selector.match_labels.iter().flatten());
    let mut unselected = selected.filter(|(key, value)| volume.labels().get(*key) != Some(*value));
    unselected
        .next()
        .map(|(key, value)| format!("lacks the label {key}={value}"))
}

/// Another claim than this one that has it.
pub(super) fn reserved(
    has: &PersistentVolumeSpec,
    claim: &PersistentVolumeClaim,
) -> Option<String> {
    let reference = has.claim_ref.as_ref()?;
    let (namespace, name) = (reference.namespace.clone()?, reference.name.clone()?);
    let same = Some(&namespace) == claim.namespace().as_ref() && name == claim.name_any();
    let same_uid = reference
        .uid
        .as_deref()
        .is_none_or(|uid| uid.is_empty() || Some(uid) == claim.uid().as_deref());
    (!same || !same_uid).then(|| format!("{namespace}/{name}"))
}
