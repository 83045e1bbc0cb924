//! Notices for the author of a pod about the claims that the pod requests, mostly about errors.

use super::{
    ClaimRequest, claim_request::Creator, failure::cause, reasons, template::UnknownField,
};
use crate::{
    cluster::is_refused,
    objects::{
        claim_requests::{MAX_CLAIMS, NoClaim, PREFIX},
        owner_references,
    },
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use std::fmt::Display;

/// A notice about a pod's claims, shown as an admission warning or refusal, as an Event on the pod,
/// or as both.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Notice {
    /// The `reason` field of the Event.
    pub reason: &'static str,
    /// The volume that the notice is about; none if the notice names no volume.
    pub volume: Option<Box<str>>,
    /// The notice as a complete sentence.
    pub sentence: String,
}

impl Notice {
    /// The notice that the value of an annotation `<volume>.enabled` is neither true nor false.
    pub fn not_a_boolean(volume: &str, value: &str) -> Self {
        let value: String = value.chars().take(40).collect();
        let sentence = format!(
            "annotation \"{PREFIX}{volume}.enabled\" is {value:?}, which is neither true nor \
             false, so no claim is created for the volume"
        );
        Self::about(volume, reasons::INVALID_ANNOTATION, sentence)
    }

    /// The notice that an annotation with the prefix of pvc-provisioner has an unknown key.
    pub fn unknown_key(key: &str) -> Self {
        let sentence = format!(
            "annotation \"{PREFIX}{key}\" is unknown; after the slash, use <volume>.enabled or \
             <volume>.pvc"
        );
        Self::new(reasons::INVALID_ANNOTATION, sentence)
    }

    /// The notice that counts the invalid annotations beyond the first eight, which have a notice
    /// each.
    pub fn more_annotations(more: usize) -> Self {
        let sentence = format!(
            "{more} more annotations with the prefix \"{PREFIX}\" are invalid, so they request no \
             claim"
        );
        Self::new(reasons::INVALID_ANNOTATION, sentence)
    }

    /// The notice that the pod requests more claims than a pod may.
    pub fn too_many_claims(requested: usize) -> Self {
        let sentence = format!(
            "the pod requests {requested} claims by annotation; the limit is {MAX_CLAIMS}, so no \
             claim is created"
        );
        Self::new(reasons::TOO_MANY, sentence)
    }

    /// The notice that the annotation with the template of the volume's claim is missing.
    pub fn missing_template(volume: &str) -> Self {
        let sentence = format!(
            "a claim is requested for volume \"{volume}\", but the annotation \
             \"{PREFIX}{volume}.pvc\" with its template is missing"
        );
        Self::about(volume, reasons::MISSING_TEMPLATE, sentence)
    }

    /// The notice that the annotations name a volume that the pod does not have.
    pub fn missing_volume(volume: &str) -> Self {
        let sentence = format!(
            "a claim is requested for volume \"{volume}\", but the pod has no volume of that name"
        );
        Self::about(volume, reasons::MISSING_VOLUME, sentence)
    }

    /// The notice that the annotations name a volume that is not a persistentVolumeClaim, or whose
    /// claimName is not a valid name.
    pub fn no_claim(volume: &str, no_claim: NoClaim) -> Self {
        let cause = match no_claim {
            NoClaim::OtherVolume => "that volume is not a persistentVolumeClaim",
            NoClaim::ImpossibleName => {
                "its claimName is not a valid name: a claim's name has at most 253 lower case \
                 letters, digits, \"-\" and \".\""
            }
        };
        let sentence = format!("a claim is requested for volume \"{volume}\", but {cause}");
        Self::about(volume, reasons::INVALID, sentence)
    }

    /// The notice that the template of the volume's claim is invalid, or not allowed.
    pub fn invalid_template(volume: &str, error: &impl Display) -> Self {
        let sentence = format!("the template of volume \"{volume}\" cannot be used: {error}");
        Self::about(volume, reasons::INVALID, sentence)
    }

    /// The notice that the template of the volume is not used, because the volume `first` requests
    /// the same claim with another template.
    pub fn other_template(volume: &str, claim: &str, first: &str) -> Self {
        let sentence = format!(
            "the template of volume \"{volume}\" is not used: claim \"{claim}\" is requested for volume \
             \"{first}\" first, with another template"
        );
        Self::about(volume, reasons::INVALID, sentence)
    }

    /// The notice that the claim was not created, because the API server refused it, or may not
    /// have been, because there was no answer. `then` says that the creation will be tried again,
    /// or what the user has to do.
    pub fn failed(claim_request: &ClaimRequest, error: &kube::Error, then: &str) -> Self {
        let cause = cause(error);
        let fields = claim_request.template.unknown_fields().iter();
        // The unknown fields precede the cause, which may be long: long warnings are truncated at
        // the end.
        let fields: String = fields.map(|field| format!(", see {field}")).collect();
        let (claim, volume) = (&claim_request.claim, &claim_request.volume);
        let outcome = if is_refused(error) {
            "was not created"
        } else {
            "may not have been created"
        };
        let sentence =
            format!("claim \"{claim}\" for volume \"{volume}\" {outcome}{fields}, {then}: {cause}");
        Self::about(volume, reasons::FAILED, sentence)
    }

    /// The notice that the template has a field which Volume Warden does not know. Only a pod that
    /// is created with a server-side dry run gets it: otherwise the API server, which may be
    /// newer, decides about the field when the claim is created.
    pub fn unknown_field(volume: &str, field: &UnknownField) -> Self {
        let sentence = format!(
            "the template of volume \"{volume}\" has a field that Volume Warden does not know, at \
             {field}"
        );
        Self::about(volume, reasons::INVALID, sentence)
    }

    /// The notice that Volume Warden runs with `--dry-run` and did not create the claim.
    pub fn withheld(claim: &str) -> Self {
        let sentence = format!("volume-warden (dry run) would create the claim \"{claim}\"");
        Self::new(reasons::PROVISIONED, sentence)
    }

    /// The notice that no claim is created before the pod exists, because other pods of its
    /// controller were refused after their claims were created.
    pub fn delayed(kind: &str, controller: &str) -> Self {
        let sentence = format!(
            "pods of the {kind} {controller} were refused after their claims were created, so the claims of this pod are created once the pod exists"
        );
        Self::new(reasons::REQUESTED, sentence)
    }

    /// The notice that the requested claim is being deleted, and what follows.
    pub fn stale(claim: &str, creator: Creator) -> Self {
        let then = match creator {
            Creator::Reconciler => "it is then recreated for this pod",
            Creator::Admission => "re-create the pod then",
            Creator::User => "create the claim then",
        };
        let sentence = format!("waiting for claim \"{claim}\" to be deleted; {then}");
        Self::new(reasons::CLAIM_TERMINATING, sentence)
    }

    /// With `--authorize-requester=pod-creator`: the notice that the claim was created for an
    /// earlier pod that does not exist, so that its deletion may be under way.
    pub fn left_behind(claim: &str) -> Self {
        let sentence = format!(
            "claim \"{claim}\" was created for an earlier pod and may be about to be deleted; if \
             this pod then waits for the claim, re-create the pod"
        );
        Self::new(reasons::REQUESTER_UNKNOWN, sentence)
    }

    /// With `--authorize-requester=pod-creator`: the notice that the claim was not created at
    /// admission, and cannot be created later, because the creator of the pod is then unknown.
    pub fn requester_unknown(claim: &str) -> Self {
        let sentence = format!(
            "claim \"{claim}\" is created only together with the pod, if the user who creates the pod may \
             create claims; re-create the pod"
        );
        Self::new(reasons::REQUESTER_UNKNOWN, sentence)
    }

    /// With `--authorize-requester=pod-creator`: the notice that the claim is not created, because
    /// the creators of pods are not known in the namespace, whose pods are not reviewed.
    pub fn unreviewed(claim: &str, namespace: &str) -> Self {
        let sentence = format!(
            "Volume Warden creates no claims in namespace \"{namespace}\", because it cannot check \
             the users who create pods there; create the claim \"{claim}\" yourself"
        );
        Self::new(reasons::REQUESTER_UNKNOWN, sentence)
    }

    /// The notice that the user who creates the pod may not create claims.
    pub fn forbidden(user: &str, namespace: &str) -> Self {
        let sentence = format!(
            "{user} may not create persistentvolumeclaims in namespace \"{namespace}\", so no claim is \
             created for the pod"
        );
        Self::new(reasons::REQUESTER_UNKNOWN, sentence)
    }

    /// The notice that it could not be checked whether the user who creates the pod may create
    /// claims.
    pub fn not_authorized(error: &kube::Error) -> Self {
        let sentence = format!(
            "your permission to create claims could not be checked, so no claim is created; re-create \
             the pod: {}",
            cause(error)
        );
        Self::new(reasons::REQUESTER_UNKNOWN, sentence)
    }

    /// The notice that the claim exists and is used unchanged, and that the pod does not own it.
    pub fn shared(claim: &str, owners: &[OwnerReference]) -> Self {
        let owner = owner_references::controller(owners).or_else(|| owners.first());
        let owned = owner.map_or_else(
            || "it has no owner and is kept when the pod is deleted".to_owned(),
            |owner| {
                format!(
                    "it is owned by {} \"{}\" and is deleted with it",
                    owner.kind, owner.name
                )
            },
        );
        let sentence = format!("claim \"{claim}\" already exists and is used unchanged; {owned}");
        Self::new(reasons::SHARED, sentence)
    }

    /// The notice that a claim was created for the volume.
    pub fn provisioned(claim: &str, volume: &str) -> Self {
        let sentence = format!("claim \"{claim}\" was created for volume \"{volume}\"");
        Self::about(volume, reasons::PROVISIONED, sentence)
    }

    /// Whether the Event of this notice has the type Warning.
    pub fn is_warning(&self) -> bool {
        ![reasons::PROVISIONED, reasons::SHARED].contains(&self.reason)
    }

    fn new(reason: &'static str, sentence: String) -> Self {
        Self {
            reason,
            volume: None,
            sentence,
        }
    }

    fn about(volume: &str, reason: &'static str, sentence: String) -> Self {
        Self {
            volume: Some(volume.into()),
            ..Self::new(reason, sentence)
        }
    }
}
