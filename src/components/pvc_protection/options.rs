//! The flags of pvc-protection.

use super::unused::UnusedCondition;
use crate::causes::FinishedPods;
use clap::{Args, ValueEnum};

#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "pvc-protection")]
#[group(skip)]
pub(super) struct Options {
    /// Whether a pod that has Succeeded or Failed still uses its claims.
    #[arg(long, value_enum, default_value_t)]
    finished_pods: FinishedPodsOption,
    /// Whether Volume Warden writes the condition Unused of claims, as Kubernetes 1.37 does; with
    /// auto, unless kube-controller-manager writes it.
    #[arg(long, value_enum, default_value_t)]
    unused_condition: UnusedCondition,
}

/// The values of `--finished-pods`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum FinishedPodsOption {
    /// A finished pod uses its claims as long as the pod object exists, as in Kubernetes. Only this
    /// value is safe while a node may still have the volume mounted.
    #[default]
    Hold,
    /// A finished pod uses no claims, as in the original PVC-protection proposal. A claim can then
    /// be deleted while a slow node still unmounts its volume.
    Release,
}

impl Options {
    pub(super) fn unused_condition(&self) -> UnusedCondition {
        self.unused_condition
    }

    pub(super) fn finished_pods(&self) -> FinishedPods {
        match self.finished_pods {
            FinishedPodsOption::Hold => FinishedPods::Hold,
            FinishedPodsOption::Release => FinishedPods::Release,
        }
    }
}
