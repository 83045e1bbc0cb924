//! The table of components.

pub mod namespace_gc;
pub mod pv_protection;
pub mod pv_releaser;
pub mod pvc_protection;
pub mod pvc_provisioner;
pub mod pvc_retention;

use crate::{cluster::Configuration, objects::Kind};
use std::{collections::BTreeMap, fmt, str::FromStr};

/// A part of Volume Warden that can be switched on alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Component {
    /// See [`crate::components::pvc_protection`].
    PvcProtection,
    /// See [`crate::components::pv_protection`].
    PvProtection,
    /// See [`crate::components::pvc_retention`].
    PvcRetention,
    /// See [`crate::components::pvc_provisioner`].
    PvcProvisioner,
    /// See [`crate::components::pv_releaser`].
    PvReleaser,
    /// See [`crate::components::namespace_gc`].
    NamespaceGc,
}

/// The label that every Lease of ours has, and its value.
pub const PART_OF: (&str, &str) = ("app.kubernetes.io/part-of", "volume-warden");
/// What the labels begin with that say which components a Lease is for.
const LEADS: &str = "volume-warden.dev/";

/// The labels of the Lease of a process that runs these.
pub fn lease_labels(components: &[Component]) -> BTreeMap<String, String> {
    let (part_of, volume_warden) = PART_OF;
    let leads = components.iter().map(|each| format!("{LEADS}{each}"));
    let mut labels: BTreeMap<_, _> = leads.map(|key| (key, String::new())).collect();
    labels.insert(part_of.to_owned(), volume_warden.to_owned());
    labels
}

impl Component {
    /// Whether a Lease with these labels is for it.
    pub fn is_led_by(self, labels: &BTreeMap<String, String>) -> bool {
        labels.contains_key(&format!("{LEADS}{self}"))
    }

    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::PvcProtection,
        Self::PvProtection,
        Self::PvcRetention,
        Self::PvcProvisioner,
        Self::PvReleaser,
        Self::NamespaceGc,
    ];

    /// As in the CLI, the manifests, the metrics and the source folders.
    pub fn name(self) -> &'static str {
        match self {
            Self::PvcProtection => pvc_protection::NAME,
            Self::PvProtection => pv_protection::NAME,
            Self::PvcRetention => pvc_retention::NAME,
            Self::PvcProvisioner => pvc_provisioner::NAME,
            Self::PvReleaser => pv_releaser::NAME,
            Self::NamespaceGc => namespace_gc::NAME,
        }
    }

    /// The kinds it watches in any case.
    pub fn watches(self) -> &'static [Kind] {
        match self {
            Self::PvcProtection => &[Kind::Pod, Kind::PersistentVolumeClaim],
            Self::PvProtection => &[Kind::PersistentVolume, Kind::PersistentVolumeClaim],
            Self::PvcRetention => &[Kind::StatefulSet, Kind::PersistentVolumeClaim, Kind::Pod],
            Self::PvcProvisioner => &[Kind::PersistentVolumeClaim, Kind::Pod],
            Self::PvReleaser => &[
                Kind::PersistentVolume,
                Kind::PersistentVolumeClaim,
                Kind::VolumeAttachment,
            ],
            // Nothing, where there is no storage backend.
            Self::NamespaceGc => &[],
        }
    }

    /// Its webhook configurations, as `manifests/` name them.
    pub fn webhook_configurations(self) -> &'static [Configuration] {
        match self {
            Self::PvcProtection => &[
                Configuration::Mutating("volume-warden-pvc-protection"),
                Configuration::Validating("volume-warden-pvc-protection-guard"),
                Configuration::Validating("volume-warden-pvc-protection-binding-guard"),
            ],
            Self::PvProtection => &[
                Configuration::Mutating("volume-warden-pv-protection"),
                Configuration::Validating("volume-warden-pv-protection-guard"),
            ],
            Self::PvcRetention => &[Configuration::Mutating("volume-warden-pvc-retention")],
            Self::PvcProvisioner => &[
                Configuration::Validating("volume-warden-pvc-provisioner"),
                Configuration::Mutating("volume-warden-pvc-provisioner-marks"),
            ],
            Self::PvReleaser => &[Configuration::Mutating("volume-warden-pv-releaser")],
            Self::NamespaceGc => &[],
        }
    }
}

impl fmt::Display for Component {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Component {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        Self::ALL
            .into_iter()
            .find(|component| component.name() == name)
            .ok_or_else(|| {
                let known: Vec<_> = Self::ALL.iter().map(|component| component.name()).collect();
                format!(
                    "there is no component of that name; there are {}",
                    known.join(", ")
                )
            })
    }
}
