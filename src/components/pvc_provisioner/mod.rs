//! `pvc-provisioner`: the claims that a pod asks for by annotation are made for it, and go with it.
//!
//! **Rule.** A pod that waits (Pending, not being deleted) and has the annotations `<prefix><volume>.enabled: "true"` and
//! `<prefix><volume>.pvc: <a claim, as YAML or JSON>` gets the claim that its volume names, unless there is one. At admission the pod is
//! not stored, so a claim made there carries a mark, `volume-warden.dev/awaiting-pod`, instead of
//! an owner. One patch removes the mark and makes the pod the owner, after a live read has
//! confirmed the pod. A claim that only pods use that do not ask for it is kept: its mark is
//! removed. A pod whose template cannot be read asks for nothing.
//!
//! **When a marked claim is written.** Not before its phase is Bound (or Lost), which is the last
//! write of the binder of kube-controller-manager. Until then the scheduler, the binder and the
//! provisioner write the claim; a patch between the read and the write of one of them makes that
//! write fail with a conflict, the PersistentVolume controller reports `ProvisioningFailed`, and
//! tries again at its next resync, up to 15 s later. A claim that stays pending is written once it
//! has not changed for ten minutes: nothing reacts to its last change any more, see
//! `rule::QUIET`.
//!
//! **When a marked claim is deleted.** When a live LIST shows that no pod names it: at once if a
//! pod that asks for it was seen, as the garbage collector would; after a grace time if none was,
//! because the pod was refused or may still be stored. What was seen is not stored: a new leader
//! begins with the whole grace.
//!
//! **Creation in the background.** For what admission missed, after a live read has confirmed that
//! the claim is absent and the pod is there. The pod is the owner from the beginning.
//!
//! **Source.** plumber-cd's dynamic-pvc-provisioner: its annotations, label and event reasons. What differs: the claim exists before the
//! pod does, what exists is not created again, one volume does not hold up another, templates are read strictly, and users are told
//! why nothing happens.

mod act;
mod assemble;
mod caches;
mod claim_request;
mod marks;
mod metrics;
mod notice;
mod notices;
mod options;
mod parse;
#[cfg(test)]
mod parse_tests;
mod reconcile;
mod requester;
mod rule;
mod subject;
pub mod template;
#[cfg(test)]
mod tests;
mod triggers;
mod waiting;
mod webhooks;

pub use assemble::PvcProvisioner;
pub use caches::Caches;
pub use claim_request::ClaimRequest;
pub use marks::strip_marker_hook;
pub use metrics::register as register_metrics;
pub use notice::Notice;
pub use notices::Notices;
pub use options::{Authorize, Options};
pub use parse::parse_claim_requests;
pub use reconcile::PvcProvisionerReconciler;
pub use requester::Requesters;
pub use rule::{Decision, Terms, User, View, Wait, decide};
pub use subject::Subject;
pub use waiting::Waiting;
pub use webhooks::{PodWebhook, hook};

/// The component's name, in the CLI and everywhere.
pub const NAME: &str = "pvc-provisioner";

/// Why something was done or left: event reason, log field and metric label alike.
pub mod reasons {
    /// A claim was made for the pod.
    pub const PROVISIONED: &str = "PVCProvisioned";
    /// The annotation with the template is missing.
    pub const MISSING_TEMPLATE: &str = "ErrMissingPVC";
    /// The pod has no such volume.
    pub const MISSING_VOLUME: &str = "ErrMissingVolume";
    /// The template cannot be used, or the volume is no claim.
    pub const INVALID: &str = "ErrInvalidPVC";
    /// An annotation under the prefix says nothing.
    pub const INVALID_ANNOTATION: &str = "ErrInvalidAnnotation";
    /// The API server refused the claim.
    pub const FAILED: &str = "ErrPVCProvisionFailed";
    /// Nobody knows whether whoever created the pod may create claims.
    pub const REQUESTER_UNKNOWN: &str = "ErrRequesterUnknown";
    /// A claim of that name is somebody else's, and is used as it is.
    pub const SHARED: &str = "ClaimShared";
    /// The claim of that name is being deleted.
    pub const CLAIM_TERMINATING: &str = "ClaimTerminating";
    /// A pod asks for a claim that is not there.
    pub const ASKED_FOR: &str = "AskedFor";
    /// The pod that a claim was made for is there.
    pub const POD_SEEN: &str = "PodSeen";
    /// No pod came for the claim, or it is gone.
    pub const ORPHANED: &str = "Orphaned";
    /// The claim is there.
    pub const EXISTS: &str = "Exists";
    /// The pod that a claim was made for never came, but another one uses it.
    pub const NAMED: &str = "Named";
    /// A pod uses the claim, which is not bound yet.
    pub const CLAIM_PENDING: &str = "ClaimPending";
    /// Nobody asks.
    pub const NOT_WANTED: &str = "NotWanted";
}
