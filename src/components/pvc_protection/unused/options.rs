//! Whether Volume Warden writes the condition.

use clap::ValueEnum;

/// When Volume Warden writes the condition `Unused`: the values of `--unused-condition`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum UnusedCondition {
    /// Writes the condition unless kube-controller-manager does, as Kubernetes 1.37 does by
    /// default. Volume Warden stops when kube-controller-manager has written the condition of a
    /// claim, and resumes when the condition of a claim has been outdated for 60 s.
    #[default]
    Auto,
    /// Always writes the condition. If kube-controller-manager writes it too, the status is the
    /// same, but each transition may be written twice.
    On,
    /// Does not write the condition, and removes the entries that Volume Warden has written: their
    /// status would become wrong.
    Off,
}
