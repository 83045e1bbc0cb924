//! The claims that a pod requests by annotation.
//!
//! The annotation keys are those of plumber-cd's dynamic-pvc-provisioner, so that manifests written
//! for it work unchanged.

use super::pod_wire::{PodVolume, PodWire};
use std::sync::Arc;

/// Prefix of the annotation keys: `<prefix><volume>.enabled`, `<prefix><volume>.pvc`.
pub const PREFIX: &str = "dynamic-pvc-provisioner.kubernetes.io/";

/// Suffix of the keys whose value is a claim template.
const TEMPLATE: &str = ".pvc";
/// Maximum number of bytes that are kept of a template. It is more than a template may have, so
/// that a template that is too long is still recognized.
const KEPT: usize = 17 * 1024;

/// The annotations by which a pod requests claims, and the volumes that they refer to. Only pods
/// with such an annotation have them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimRequests {
    /// The annotations in the order of their keys; the keys have no prefix.
    pub annotations: Box<[(Box<str>, Box<str>)]>,
    /// The volumes of the pod, in the order of `spec.volumes`.
    pub volumes: Box<[RequestingVolume]>,
    /// Whether the phase is Pending, so that the pod does not run yet.
    pub pending: bool,
    /// Whether the phase is Succeeded or Failed.
    pub ended: bool,
    /// Whether `deletionTimestamp` is set.
    pub deleting: bool,
    /// When the pod was created, in seconds since 1970.
    pub created: i64,
}

/// A volume of a pod that requests claims.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestingVolume {
    /// The name of the volume, which the annotation keys contain.
    pub volume: Box<str>,
    /// The name of the claim, if the volume is a `persistentVolumeClaim`.
    pub claim: Option<Arc<str>>,
}

impl ClaimRequests {
    /// Returns the requests of a pod, if it has an annotation with the prefix.
    pub fn of(pod: &PodWire) -> Option<Self> {
        let annotations = pod.metadata.annotations.iter().flatten();
        let annotations: Box<[_]> = annotations
            .filter_map(|(key, value)| {
                let key = key.strip_prefix(PREFIX)?;
                Some((key.into(), value.as_str().into()))
            })
            .collect();
        if annotations.is_empty() {
            return None;
        }
        let created = pod.metadata.creation_timestamp.as_ref();
        Some(Self {
            annotations,
            volumes: pod.spec.volumes.iter().map(RequestingVolume::of).collect(),
            pending: pod.status.is_pending(),
            ended: pod.status.finished(),
            deleting: pod.metadata.deletion_timestamp.is_some(),
            created: created.map_or(0, |time| time.0.as_second()),
        })
    }

    /// Keeps at most 17 KiB of each template, and no template of a pod that has ended. A pod may
    /// have 256 KiB of annotations, and no node limits the number of pods that have ended.
    pub fn compact(mut self) -> Self {
        for (key, value) in &mut self.annotations {
            if self.ended && key.ends_with(TEMPLATE) {
                *value = Box::default();
            } else if value.len() > KEPT {
                *value = value[..value.floor_char_boundary(KEPT)].into();
            }
        }
        self
    }

    /// Returns the value of the annotation `<prefix><volume>.<suffix>`.
    pub fn get(&self, volume: &str, suffix: &str) -> Option<&str> {
        let wanted = |key: &str| {
            key.strip_suffix(suffix)
                .and_then(|rest| rest.strip_suffix('.'))
                == Some(volume)
        };
        let mut annotations = self.annotations.iter();
        let found = annotations.find(|(key, _)| wanted(key));
        found.map(|(_, value)| &**value)
    }

    /// Returns whether the pod still waits for its claims. Later, no claim is created for it.
    pub fn waiting(&self) -> bool {
        self.pending && !self.deleting
    }
}

impl RequestingVolume {
    fn of(volume: &PodVolume) -> Self {
        let claim = volume.persistent_volume_claim.as_ref();
        Self {
            volume: volume.name.as_str().into(),
            claim: claim.map(|claim| claim.claim_name.as_str().into()),
        }
    }
}
