//! What a pod asks for by annotation: claims that are to be made for it.
//!
//! The keys are those of plumber-cd's dynamic-pvc-provisioner, so that manifests written for it work unchanged.

use super::pod_wire::{PodVolume, PodWire};
use std::sync::Arc;

/// What the keys begin with: `<prefix><volume>.enabled`, `<prefix><volume>.pvc`.
pub const PREFIX: &str = "dynamic-pvc-provisioner.kubernetes.io/";

/// What the keys of templates end with.
const TEMPLATE: &str = ".pvc";
/// More than a template may have, so that a template with too many is still recognized.
const KEPT: usize = 17 * 1024;

/// The annotations and what they are about, as written. Kept only of pods that have one with the prefix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimRequests {
    /// Key after the prefix, and value; in the order of the keys.
    pub annotations: Box<[(Box<str>, Box<str>)]>,
    /// In the order of `spec.volumes`.
    pub volumes: Box<[RequestingVolume]>,
    /// Phase Pending: the pod does not run yet.
    pub pending: bool,
    /// Phase Succeeded or Failed.
    pub ended: bool,
    /// `deletionTimestamp` is set.
    pub deleting: bool,
    /// When the pod was created, in seconds since 1970.
    pub created: i64,
}

/// A volume of such a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestingVolume {
    /// Its name, which the annotations' keys contain.
    pub volume: Box<str>,
    /// The claim it names, where it is a claim by name.
    pub claim: Option<Arc<str>>,
}

impl ClaimRequests {
    /// The pod's wishes, if it has any annotation of this kind.
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
    /// have 256 KiB of annotations, and pods that have ended are limited by no node.
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

    /// The value of `<prefix><volume>.<suffix>`.
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

    /// The pod waits for its claims: later than that nothing is made for it.
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
