//! The flags of pv-releaser, which are also its options.

use crate::objects::{ControllerId, ManagedBy, Volume, managed_by::Ownership};
use clap::{ArgAction, Args};

/// Options of pv-releaser.
#[derive(Clone, Debug, PartialEq, Eq, Args)]
#[command(next_help_heading = "pv-releaser")]
#[group(skip)]
pub struct Options {
    /// The value of the managed-by label of the volumes and claims to manage.
    #[arg(skip)]
    pub id: ControllerId,

    /// The namespace of Volume Warden. The `claimRef` of a parked volume names a claim in it that
    /// no client can create.
    #[arg(skip)]
    pub system_namespace: String,

    /// Never add or remove the managed-by label of volumes. Only volumes that a user labelled are
    /// released, and those that --associate-by-storage-class adds; they keep their labels.
    #[arg(long, action = ArgAction::Set, default_value_t)]
    pub disable_automatic_association: bool,

    /// What a released volume loses of its claimRef: all of it (full), or only the uid (soft), so
    /// that only a new claim of the same namespace and name can be bound to it.
    #[arg(long, value_enum, default_value_t)]
    pub release_mode: Mode,

    /// Which claims may get a released volume: those of the namespace of its deleted claim
    /// (namespace), or of any namespace (cluster). The label volume-warden.dev/release-scope of a
    /// volume, or else the annotation of that name on its StorageClass, takes precedence
    /// [default: namespace; with a --controller-id other than the default, cluster]
    #[arg(long, value_enum)]
    pub release_scope: Option<Scope>,

    /// Also read the label reclaimable-pv-releaser/managed-by, which plumber-cd's releaser wrote
    /// instead of the documented label reclaimable-pv-releaser.kubernetes.io/managed-by.
    #[arg(long, action = ArgAction::Set, default_value_t = true)]
    pub legacy_label: bool,

    /// Also release volumes of StorageClasses whose annotation
    /// reclaimable-pv-releaser.kubernetes.io/controller-id equals the controller id.
    #[arg(long, action = ArgAction::Set, default_value_t)]
    pub associate_by_storage_class: bool,
}

/// Which part of its claimRef a released volume keeps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Mode {
    /// The volume keeps nothing of its claimRef. --release-scope says which claims may then be
    /// bound to it.
    #[default]
    Full,
    /// The volume keeps the namespace and name in its claimRef, so only a recreated claim of that
    /// name may be bound to it.
    Soft,
}

/// Which claims may get a released volume. [`Mode::Soft`] restricts them further.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, clap::ValueEnum)]
pub enum Scope {
    /// Claims of the namespace of the deleted claim, while that namespace exists.
    Namespace,
    /// Any claim that the volume fits, in any namespace.
    Cluster,
}

impl Options {
    /// Returns who may get a released volume, if neither the volume nor its StorageClass says so:
    /// the value of `--release-scope`. Without that flag, [`Scope::Cluster`] if `--controller-id`
    /// is not the default, as for plumber-cd's controllers, and else [`Scope::Namespace`].
    pub fn scope(&self) -> Scope {
        let own_id = self.id != ControllerId::default();
        let default = if own_id {
            Scope::Cluster
        } else {
            Scope::Namespace
        };
        self.release_scope.unwrap_or(default)
    }

    /// Returns whether the labels of the volume name this installation, another installation, or
    /// none.
    pub fn volume_ownership(&self, volume: &Volume) -> Ownership {
        let labels = volume.managed_by.as_ref();
        labels.map_or(Ownership::Unlabeled, |labels| {
            labels.volume_ownership(&self.id, self.legacy_label)
        })
    }

    /// Returns whether a claim with these labels belongs to this installation.
    pub fn is_own_claim(&self, labels: &ManagedBy) -> bool {
        labels.claim_ownership(&self.id, self.legacy_label) == Ownership::Own
    }
}

impl Default for Options {
    /// The defaults of the command-line flags.
    fn default() -> Self {
        Self {
            id: ControllerId::default(),
            system_namespace: "volume-warden".to_owned(),
            disable_automatic_association: false,
            release_mode: Mode::Full,
            release_scope: None,
            legacy_label: true,
            associate_by_storage_class: false,
        }
    }
}
