//! What an installation is told about how to release.

use crate::objects::{ControllerId, ManagedBy, Volume, managed_by::Ownership};

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Which volumes are ours.
    pub id: ControllerId,
    /// Volumes are labelled when their claims are, and lose the label when they are released. Otherwise labels are put by hand, and
    /// stay.
    pub automatic: bool,
    /// The key that the original wrote by mistake counts as well.
    pub legacy_label: bool,
    /// A StorageClass may say that its volumes are ours.
    pub by_class: bool,
    /// What is left of the claim.
    pub mode: Mode,
}

/// What is left of the claim that a volume is freed of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Mode {
    /// Nothing: any claim may have the volume.
    #[default]
    Full,
    /// Its namespace and name: only a claim that is created anew in its place may have the volume.
    Soft,
}

impl Options {
    /// Which installation the volume belongs to, by its labels.
    pub fn whose(&self, volume: &Volume) -> Ownership {
        let labels = volume.managed_by.as_ref();
        labels.map_or(Ownership::Unlabeled, |labels| {
            labels.whose_volume(&self.id, self.legacy_label)
        })
    }

    /// Whether a claim with these labels is ours.
    pub fn is_own_claim(&self, labels: &ManagedBy) -> bool {
        labels.whose_claim(&self.id, self.legacy_label) == Ownership::Own
    }
}

impl Default for Options {
    /// As by the defaults of the command line.
    fn default() -> Self {
        Self {
            id: ControllerId::default(),
            automatic: true,
            legacy_label: true,
            by_class: false,
            mode: Mode::Full,
        }
    }
}
