//! The flags of pvc-provisioner.

use crate::{
    components::pvc_provisioner::{Authorize, Options},
    objects::ControllerId,
};
use clap::{ArgAction, Args};
use std::time::Duration;

#[derive(Debug, Args)]
#[command(next_help_heading = "pvc-provisioner")]
pub(super) struct ProvisionerOptions {
    /// Refuse pods whose templates are bad, instead of warning.
    #[arg(
        long,
        env = "VOLUME_WARDEN_STRICT_TEMPLATES",
        num_args = 0..=1,
        require_equals = true,
        action = ArgAction::Set,
        default_value_t,
        default_missing_value = "true",
        value_name = "BOOL"
    )]
    strict_templates: bool,

    /// Whether whoever creates a pod must be allowed to create its claims.
    #[arg(
        long,
        env = "VOLUME_WARDEN_AUTHORIZE_REQUESTER",
        value_enum,
        default_value_t
    )]
    authorize_requester: Authorize,

    /// How long a claim made at admission may wait for a pod that names it, before it is deleted.
    #[arg(
        long,
        env = "VOLUME_WARDEN_ORPHAN_GRACE_SECONDS",
        default_value = "60",
        value_parser = clap::value_parser!(u32).range(1..),
        value_name = "SECONDS"
    )]
    orphan_grace_seconds: u32,

    /// Set blockOwnerDeletion in the owner reference to the pod, as the original did. It keeps a pod that is deleted in the foreground
    /// waiting for a claim that waits for the pod.
    #[arg(
        long,
        env = "VOLUME_WARDEN_BLOCK_OWNER_DELETION",
        num_args = 0..=1,
        require_equals = true,
        action = ArgAction::Set,
        default_value_t,
        default_missing_value = "true",
        value_name = "BOOL"
    )]
    block_owner_deletion: bool,
}

impl ProvisionerOptions {
    /// What they come to, for this installation.
    pub(super) fn provisioning(&self, id: &ControllerId) -> Options {
        Options {
            controller_id: id.clone(),
            grace: Duration::from_secs(self.orphan_grace_seconds.into()),
            strict: self.strict_templates,
            block_owner_deletion: self.block_owner_deletion,
            authorize: self.authorize_requester,
        }
    }
}
