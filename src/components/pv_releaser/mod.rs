//! `pv-releaser`: a volume that outlives its claim is made available again, with what is on it, for the next claim.
//!
//! **Rule.** A volume is ours by the label `reclaimable-pv-releaser.kubernetes.io/managed-by` with our controller id. It gets the label
//! when its claim, by name and uid, says by every label it has that it is ours; a claim that went
//! not long ago still counts. It gets it at its creation or once it is Bound: in between the
//! binder writes it, and would fail. Where it
//! is allowed, a volume without that label is also ours by its StorageClass. A volume that is labelled for somebody else is never
//! touched.
//!
//! A volume of ours is released when its phase is Released, its policy is Retain, it is not being deleted and no VolumeAttachment names
//! it. A cached attachment can prove that a node still has the volume; that none has takes a LIST that began after the volume was
//! seen. To release is one patch: `spec.claimRef` goes (or only what ties it to the claim that is gone), and with it the label and the
//! binder's own mark.
//!
//! A volume that is Released for good, because nothing says whose it is, is an orphan: it is told of once, and counted.
//!
//! **Source.** plumber-cd's reclaimable-pv-releaser v0.1.1, and for StorageClasses v0.2. What differs: claims are watched, so a claim of
//! two seconds is not missed; uids are compared; a volume whose policy is not Retain, that is being deleted or still attached is left
//! alone; the label is the one that the original documents, not the one that it wrote, which is understood too.

mod assemble;
mod caches;
mod metrics;
mod notices;
mod options;
mod patch;
mod reconcile;
mod rule;
#[cfg(test)]
mod tests;
mod triggers;
mod webhooks;
#[cfg(test)]
mod webhooks_tests;

pub use assemble::PvReleaser;
pub use caches::Caches;
pub use metrics::register as register_metrics;
pub use options::{Mode, Options};
pub use reconcile::PvReleaserReconciler;
pub use rule::{Attachment, Decision, Left, View, decide};
pub use webhooks::hook;

/// The component's name, in the CLI and everywhere.
pub const NAME: &str = "pv-releaser";

/// Why something was done, and what users are told of: event reason, log field and metric label alike.
pub mod reasons {
    /// A volume was labelled, because its claim is ours.
    pub const ASSOCIATED: &str = "Associated";
    /// A volume was freed of its claim, which is gone.
    pub const RELEASED: &str = "Released";
    /// A volume is ours, but cannot be released.
    pub const CANNOT_RELEASE: &str = "ErrReleasePV";
    /// A volume is Released, and nothing says whose it is.
    pub const ORPHANED: &str = "Orphaned";
}
