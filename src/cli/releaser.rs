//! The flags of pv-releaser.

use crate::{
    components::pv_releaser::{Mode, Options},
    objects::ControllerId,
};
use clap::{ArgAction, Args};

#[derive(Debug, Args)]
#[command(next_help_heading = "pv-releaser")]
pub(super) struct ReleaserOptions {
    /// Never label volumes, and never take a label away: only volumes that are labelled by hand are released, each time anew.
    #[arg(
        long,
        env = "VOLUME_WARDEN_DISABLE_AUTOMATIC_ASSOCIATION",
        num_args = 0..=1,
        require_equals = true,
        action = ArgAction::Set,
        default_value_t,
        default_missing_value = "true",
        value_name = "BOOL"
    )]
    disable_automatic_association: bool,

    /// What a released volume keeps of its claim.
    #[arg(long, env = "VOLUME_WARDEN_RELEASE_MODE", value_enum, default_value_t)]
    release_mode: Mode,

    /// Understand the label reclaimable-pv-releaser/managed-by as well, which the original wrote instead of the documented one.
    #[arg(
        long,
        env = "VOLUME_WARDEN_LEGACY_LABEL",
        num_args = 0..=1,
        require_equals = true,
        action = ArgAction::Set,
        default_value_t = true,
        default_missing_value = "true",
        value_name = "BOOL"
    )]
    legacy_label: bool,

    /// Release the volumes of StorageClasses, too, whose annotation reclaimable-pv-releaser.kubernetes.io/controller-id is our id.
    #[arg(
        long,
        env = "VOLUME_WARDEN_ASSOCIATE_BY_STORAGE_CLASS",
        num_args = 0..=1,
        require_equals = true,
        action = ArgAction::Set,
        default_value_t,
        default_missing_value = "true",
        value_name = "BOOL"
    )]
    associate_by_storage_class: bool,
}

impl ReleaserOptions {
    /// What they come to, for this installation.
    pub(super) fn releasing(&self, id: &ControllerId) -> Options {
        Options {
            id: id.clone(),
            automatic: !self.disable_automatic_association,
            legacy_label: self.legacy_label,
            by_class: self.associate_by_storage_class,
            mode: self.release_mode,
        }
    }
}
