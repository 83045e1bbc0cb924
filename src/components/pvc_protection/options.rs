//! The flags of pvc-protection.

use crate::causes::FinishedPods;
use clap::{Args, ValueEnum};

#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "pvc-protection")]
#[group(skip)]
pub(super) struct Options {
    /// Whether a pod that has Succeeded or Failed still uses its claims.
    #[arg(long, value_enum, default_value_t)]
    finished_pods: FinishedPodsOption,
}

/// The values of `--finished-pods`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum FinishedPodsOption {
    /// Yes, as long as the pod object exists: what Kubernetes does, and the only safe answer while
    /// a node may still have the volume mounted.
    #[default]
    Hold,
    /// No: the original PVC-protection proposal. A claim can then be deleted while a slow node is
    /// still unmounting it.
    Release,
}

impl Options {
    pub(super) fn finished_pods(&self) -> FinishedPods {
        match self.finished_pods {
            FinishedPodsOption::Hold => FinishedPods::Hold,
            FinishedPodsOption::Release => FinishedPods::Release,
        }
    }
}
