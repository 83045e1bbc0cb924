//! The claims that a pod requests by annotation.
//!
//! The annotation keys are those of plumber-cd's dynamic-pvc-provisioner, so that manifests written
//! for it work unchanged.

pub use super::keys::REQUEST_PREFIX as PREFIX;
use super::{
    is_possible_name,
    pod_wire::{PodVolume, PodWire},
};
use crate::hashing::HashSet;
use std::sync::Arc;

/// Suffix of the keys whose value says whether a claim is requested.
const ENABLED: &str = ".enabled";
/// Suffix of the keys whose value is a claim template.
const TEMPLATE: &str = ".pvc";
/// Maximum number of bytes that are kept of an annotation. It is more than a template may have, so
/// that a template that is too long is still recognized.
const MAX_ANNOTATION_BYTES: usize = 17 * 1024;
/// Maximum number of claims that one pod may request. The templates are parsed while the creation
/// of the pod waits.
pub const MAX_CLAIMS: usize = 32;

/// The annotations by which a pod requests claims, and the volumes that they refer to. Only pods
/// with such an annotation have them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimRequests {
    /// The annotations in the order of their keys; the keys have no prefix.
    pub annotations: Box<[(Box<str>, Box<str>)]>,
    /// The volumes of the pod for which a claim is requested, in the order of `spec.volumes`. Empty
    /// if there are more than [`MAX_CLAIMS`].
    pub volumes: Box<[RequestingVolume]>,
    /// The number of volumes of the pod for which a claim is requested.
    pub requested: usize,
    /// Whether the phase is Pending.
    pub pending: bool,
    /// Whether the phase is Succeeded or Failed.
    pub ended: bool,
    /// Whether `deletionTimestamp` is set.
    pub deleting: bool,
    /// When the pod was created, in seconds since 1970.
    pub created: i64,
}

/// A volume of a pod for which a claim is requested.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestingVolume {
    /// The name of the volume, which the annotation keys contain.
    pub volume: Box<str>,
    /// The name of the claim, or why there is none.
    pub claim: Result<Arc<str>, NoClaim>,
}

/// Why a volume names no claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoClaim {
    /// The volume is not a `persistentVolumeClaim`.
    OtherVolume,
    /// No claim can have the name. The API server accepts any name in a pod.
    ImpossibleName,
}

impl ClaimRequests {
    /// Returns the requests of a pod, if it has an annotation with the prefix. The time that it
    /// takes grows with the sum of volumes and annotations, and not with their product, because any
    /// tenant may write thousands of both.
    pub fn of(pod: &PodWire) -> Option<Self> {
        let annotations = pod.metadata.annotations.iter().flatten();
        let annotations: Box<[(Box<str>, Box<str>)]> = annotations
            .filter_map(|(key, value)| {
                let key = key.strip_prefix(PREFIX)?;
                Some((key.into(), value.as_str().into()))
            })
            .collect();
        if annotations.is_empty() {
            return None;
        }
        let enabled: HashSet<&str> = annotations
            .iter()
            .filter(|(_, value)| boolean(value) == Some(true))
            .filter_map(|(key, _)| key.strip_suffix(ENABLED))
            .collect();
        let volumes = pod.spec.volumes.iter();
        let requesting = volumes.filter(|volume| enabled.contains(volume.name.as_str()));
        let requested = requesting.clone().count();
        let volumes = match requested {
            0..=MAX_CLAIMS => requesting.map(RequestingVolume::of).collect(),
            _ => Box::default(),
        };
        let created = pod.metadata.creation_timestamp.as_ref();
        Some(Self {
            annotations,
            volumes,
            requested,
            pending: pod.status.is_pending(),
            ended: pod.status.finished(),
            deleting: pod.metadata.deletion_timestamp.is_some(),
            created: created.map_or(0, |time| time.0.as_second()),
        })
    }

    /// Keeps at most 17 KiB of each annotation, and no template of a pod that has ended. A pod may
    /// have 256 KiB of annotations, and no node limits the number of pods that have ended.
    pub fn compact(mut self) -> Self {
        for (key, value) in &mut self.annotations {
            if self.ended && key.ends_with(TEMPLATE) {
                *value = Box::default();
            } else if value.len() > MAX_ANNOTATION_BYTES {
                *value = value[..value.floor_char_boundary(MAX_ANNOTATION_BYTES)].into();
            }
        }
        self
    }

    /// Returns the template of the volume's claim: the annotation `<prefix><volume>.pvc`.
    pub fn template(&self, volume: &str) -> Option<&str> {
        let key = format!("{volume}{TEMPLATE}");
        let found = self
            .annotations
            .binary_search_by(|(each, _)| (**each).cmp(&key));
        found.ok().map(|index| &*self.annotations[index].1)
    }

    /// Returns whether the pod is Pending and not being deleted. No claim is created for any other
    /// pod.
    pub fn waiting(&self) -> bool {
        self.pending && !self.deleting
    }
}

/// What an annotation of a pod says about a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Setting<'a> {
    /// `<volume>.enabled`: whether a claim is requested; none if the value is no boolean.
    Enabled(&'a str, Option<bool>),
    /// `<volume>.pvc`: the template of the claim.
    Template,
    /// The key is neither `<volume>.enabled` nor `<volume>.pvc`.
    Unknown,
}

impl<'a> Setting<'a> {
    /// Reads an annotation, whose key has no prefix.
    pub fn read(key: &'a str, value: &str) -> Self {
        match key.rsplit_once('.') {
            Some((volume, "enabled")) => Self::Enabled(volume, boolean(value)),
            Some((volume, "pvc")) if !volume.is_empty() => Self::Template,
            _ => Self::Unknown,
        }
    }
}

/// Parses like Go's `strconv.ParseBool`: manifests for plumber-cd's provisioner rely on it.
fn boolean(value: &str) -> Option<bool> {
    match value {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
        _ => None,
    }
}

impl RequestingVolume {
    fn of(volume: &PodVolume) -> Self {
        let claim = match &volume.persistent_volume_claim {
            Some(claim) if is_possible_name(&claim.claim_name) => {
                Ok(claim.claim_name.as_str().into())
            }
            Some(_) => Err(NoClaim::ImpossibleName),
            None => Err(NoClaim::OtherVolume),
        };
        Self {
            volume: volume.name.as_str().into(),
            claim,
        }
    }
}
