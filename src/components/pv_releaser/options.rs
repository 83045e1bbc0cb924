//! The flags of pv-releaser.

use crate::objects::{ControllerId, ManagedBy, Volume, managed_by::Ownership};
use clap::{ArgAction, Args};

/// Options of pv-releaser.
#[derive(Clone, Debug, PartialEq, Eq, Args)]
#[command(next_help_heading = "pv-releaser")]
#[group(skip)]
pub struct Options {
    /// Controller id: volumes and claims with this label value are managed.
    #[arg(skip)]
    pub id: ControllerId,

    /// Never add or remove the managed-by label: only manually labelled volumes are released, and
    /// they keep the label.
    #[arg(long, action = ArgAction::Set, default_value_t, value_name = "BOOL")]
    pub disable_automatic_association: bool,

    /// What a released volume keeps of its claim.
    #[arg(long, value_enum, default_value_t)]
    pub release_mode: Mode,

    /// Also read the label reclaimable-pv-releaser/managed-by, which plumber-cd's releaser wrote
    /// instead of the documented one.
    #[arg(long, action = ArgAction::Set, default_value_t = true, value_name = "BOOL")]
    pub legacy_label: bool,

    /// Also release volumes of StorageClasses whose annotation
    /// reclaimable-pv-releaser.kubernetes.io/controller-id is the controller id.
    #[arg(long, action = ArgAction::Set, default_value_t, value_name = "BOOL")]
    pub associate_by_storage_class: bool,
}

/// What a released volume keeps of its `claimRef`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Mode {
    /// Nothing: any claim can bind the volume.
    #[default]
    Full,
    /// Its namespace and name: only a recreated claim of that name can bind the volume.
    Soft,
}

impl Options {
    /// Returns which installation the volume belongs to, by its labels.
    pub fn whose(&self, volume: &Volume) -> Ownership {
        let labels = volume.managed_by.as_ref();
        labels.map_or(Ownership::Unlabeled, |labels| {
            labels.whose_volume(&self.id, self.legacy_label)
        })
    }

    /// Returns whether this installation manages a claim with these labels.
    pub fn is_own_claim(&self, labels: &ManagedBy) -> bool {
        labels.whose_claim(&self.id, self.legacy_label) == Ownership::Own
    }
}

impl Default for Options {
    /// The defaults of the command line.
    fn default() -> Self {
        Self {
            id: ControllerId::default(),
            disable_automatic_association: false,
            release_mode: Mode::Full,
            legacy_label: true,
            associate_by_storage_class: false,
        }
    }
}
