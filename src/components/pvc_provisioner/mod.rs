//! `pvc-provisioner`: creates the claims that a pod requests by annotation. They are deleted with
//! the pod.
//!
//! **Rule.** A pod that waits (Pending, not being deleted) and has the annotations
//! `<prefix><volume>.enabled: "true"` and `<prefix><volume>.pvc: <a claim, as YAML or JSON>` gets
//! the claim that its volume names, unless the claim exists. At admission the pod is not stored, so
//! a claim created there carries a marker, `volume-warden.dev/awaiting-pod`, instead of an owner.
//! One patch removes the marker and makes the pod the owner, after a live read has confirmed the
//! pod. If the pods that name the claim do not request it by annotation, or another client has
//! given the claim an owner, Volume Warden keeps the claim and removes the marker. An invalid
//! template requests no claim.
//!
//! **When a marked claim is written.** Volume Warden makes the pod the owner, or removes the
//! marker, only once the phase of the claim is Bound (or Lost), which is the last write of the
//! binder of kube-controller-manager. Until then the scheduler, the binder and the provisioner
//! write the claim. A patch by Volume Warden between the read and the write of one of them makes
//! that write fail with a conflict; the PersistentVolume controller then reports
//! `ProvisioningFailed` and retries at its next resync, up to 15 s later. A claim that stays
//! pending is written once it has not changed for ten minutes, when no controller reacts to its
//! last change any more, see `rule::QUIET`.
//!
//! **When a marked claim is deleted.** When a live LIST shows that no pod names it: at once if a
//! pod that requests it was seen by a live read, as the garbage collector would; after a grace
//! period (`--orphan-grace`) if none was seen, because the API server may have refused the pod, or
//! may not have stored it yet. Which pods were seen is kept in memory only: a new leader begins
//! with the full grace period.
//!
//! **Creation in the background.** The reconciler creates the claims that admission missed, after a
//! live read has confirmed that the claim is absent and the pod exists. The pod is the owner from
//! the beginning. With `--authorize-requester=pod-creator`, the reconciler creates no claims.
//!
//! **Pods that are refused.** A pod may still be refused after its claims were created. Therefore
//! the number of claims that admission creates for refused pods of one controller is limited,
//! except with `--authorize-requester=pod-creator`; see `attempts`.
//!
//! **Source.** plumber-cd's dynamic-pvc-provisioner: its annotations, label and event reasons.
//! Differences: the claim exists before the pod does, an existing claim is not created again, one
//! volume does not delay another, templates are parsed strictly, and an Event explains why a claim
//! is not created.

mod act;
mod assemble;
mod attempts;
mod caches;
mod claim_request;
mod failure;
mod findings;
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
mod template_policy;
#[cfg(test)]
mod tests;
mod triggers;
mod view;
mod waiting;
mod webhooks;

pub use assemble::PvcProvisioner;
pub use attempts::Attempts;
pub use caches::Caches;
pub use claim_request::ClaimRequest;
pub use marks::strip_marker_hook;
#[cfg(feature = "simulation")]
pub use metrics::register as register_metrics;
pub use notice::Notice;
pub use notices::Notices;
pub use options::Options;
pub use parse::parse_claim_requests;
pub use reconcile::PvcProvisionerReconciler;
pub use requester::Requesters;
pub use subject::Subject;
pub use template_policy::TemplatePolicy;
pub use waiting::Waiting;
pub use webhooks::{PodWebhook, hook};

/// Name of the component pvc-provisioner in flags, logs and metrics.
pub const NAME: &str = "pvc-provisioner";

/// Reasons for an action or for none, used as Event reason, log field and metric label.
pub mod reasons {
    use crate::reason::reasons;

    reasons! {
        /// The claim that the pod requests was created.
        PROVISIONED: Normal "pod" = "PVCProvisioned";
        /// A claim of the requested name existed, is not owned by the pod, and is used unchanged.
        SHARED: Normal "pod" = "ClaimShared";
        /// The pod waits for an old claim of the requested name to be deleted.
        CLAIM_TERMINATING: Warning "pod" = "ClaimTerminating";
        /// A volume is enabled, but has no template.
        MISSING_TEMPLATE: Warning "pod" = "ErrMissingPVC";
        /// The annotations name a volume that the pod does not have.
        MISSING_VOLUME: Warning "pod" = "ErrMissingVolume";
        /// The template cannot be used, differs from that of an earlier volume with the same claim,
        /// or the volume is not a persistentVolumeClaim.
        INVALID: Warning "pod" = "ErrInvalidPVC";
        /// A key or value under the prefix of pvc-provisioner is unknown.
        INVALID_ANNOTATION: Warning "pod" = "ErrInvalidAnnotation";
        /// The pod requests more than 32 claims, so none is created.
        TOO_MANY: Warning "pod" = "ErrTooManyClaims";
        /// The API server refused the claim, or did not answer, so that the claim may exist.
        FAILED: Warning "pod" = "ErrPVCProvisionFailed";
        /// The creator of the pod may not create claims, or this could not be checked: claims are
        /// created only at admission, for users who may create them. In exempt namespaces, this is
        /// never checked.
        REQUESTER_UNKNOWN: Warning "pod" = "ErrRequesterUnknown";
        /// Volume Warden creates the claim: a pod requests the claim, and it does not exist.
        REQUESTED = "Requested";
        /// The pod that the claim was created for became its owner.
        OWNER_ADDED = "OwnerAdded";
        /// Volume Warden deletes the claim: the pod that the claim was created for was never
        /// stored, or is deleted, and no pod names the claim.
        ORPHANED = "Orphaned";
        /// The claim exists, and does not await a pod.
        EXISTS = "Exists";
        /// Volume Warden removes the marker and keeps the claim: the pod that the claim was
        /// created for does not exist, but another pod names the claim.
        NAMED_BY_OTHER_POD = "NamedByOtherPod";
        /// Volume Warden removes the marker and keeps the claim: another client has given the claim
        /// an owner.
        OWNED = "Owned";
        /// A pod that does not request the claim uses it, or another client has given it an owner.
        /// The marker stays until the claim is Bound.
        CLAIM_PENDING = "ClaimPending";
        /// No pod requests the claim.
        NOT_REQUESTED = "NotRequested";
    }
}
