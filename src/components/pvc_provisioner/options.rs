//! The flags of pvc-provisioner, which are also its options.

use crate::{go_duration, objects::ControllerId};
use clap::{ArgAction, Args};
use std::time::Duration;

/// Options of pvc-provisioner.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "pvc-provisioner")]
#[group(skip)]
pub struct Options {
    /// The value of the managed-by label of every created claim. Only claims with it get an owner
    /// or are deleted.
    #[arg(skip)]
    pub controller_id: ControllerId,

    /// Refuse pods with invalid claim templates, instead of returning a warning.
    #[arg(long, action = ArgAction::Set, default_value_t)]
    pub strict_templates: bool,

    /// Whether the user who creates a pod must be allowed to create its claims.
    #[arg(long, value_enum, default_value_t)]
    pub authorize_requester: Authorize,

    /// How long a claim that was created at admission may wait for its pod before it is deleted;
    /// at least 1s.
    #[arg(
        long,
        default_value = "1m",
        value_parser = go_duration::parse_pause_or_seconds,
    )]
    pub orphan_grace: Duration,

    /// Set blockOwnerDeletion in the owner reference to the pod, as plumber-cd's provisioner did.
    /// With foreground deletion the pod then waits for its claim, and the claim for the pod.
    #[arg(long, action = ArgAction::Set, default_value_t)]
    pub block_owner_deletion: bool,
}

impl Options {
    /// Whether only admission creates claims.
    pub fn authorizes(&self) -> bool {
        self.authorize_requester == Authorize::PodCreator
    }
}

/// `--authorize-requester`
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Authorize {
    /// No: every pod gets its claims, as with plumber-cd's provisioner. Most clusters need this,
    /// because workload controllers create pods for other users.
    #[default]
    Off,
    /// Yes. Only admission then creates claims, because the user is not known afterwards.
    PodCreator,
}
