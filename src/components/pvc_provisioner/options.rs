//! The flags of pvc-provisioner, which are also its options.

use super::TemplatePolicy;
use crate::{go_duration, objects::ControllerId};
use clap::{ArgAction, Args};
use std::time::Duration;

/// Options of pvc-provisioner.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "pvc-provisioner")]
#[group(skip)]
pub struct Options {
    /// The value of the managed-by label of every created claim. Only claims with this label get an
    /// owner or are deleted.
    #[arg(skip)]
    pub controller_id: ControllerId,

    /// Refuse pods with invalid claim templates or annotations of pvc-provisioner, instead of
    /// admitting them with a warning and without the claim.
    #[arg(long, action = ArgAction::Set, default_value_t)]
    pub strict_templates: bool,

    /// The flags that say what templates may contain.
    #[command(flatten)]
    pub templates: TemplatePolicy,

    /// Whether to create the claims that a pod requests only if the user who creates the pod may
    /// create claims.
    #[arg(long, value_enum, default_value_t)]
    pub authorize_requester: Authorize,

    /// How long a claim that was created at admission is kept if its pod never appears, for
    /// example because a quota refused the pod; at least 1s.
    #[arg(
        long,
        default_value = "1m",
        value_parser = go_duration::parse_pause_or_seconds,
    )]
    pub orphan_grace: Duration,

    /// Set blockOwnerDeletion in the owner reference from a claim to its pod, as plumber-cd's
    /// provisioner did. With foreground deletion, the pod then waits for its claim, and the claim
    /// for the pod.
    #[arg(long, action = ArgAction::Set, default_value_t)]
    pub block_owner_deletion: bool,
}

impl Options {
    /// Whether the requester is checked, so that only admission creates claims.
    pub fn authorizes(&self) -> bool {
        self.authorize_requester == Authorize::PodCreator
    }
}

/// The values of `--authorize-requester`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Authorize {
    /// The user is not checked: every pod gets its claims, as with plumber-cd's provisioner. Most
    /// clusters need this value, because workload controllers create pods for other users.
    #[default]
    Off,
    /// The user who creates the pod is checked. Only admission then creates claims, because the
    /// user is not known afterwards.
    PodCreator,
}
