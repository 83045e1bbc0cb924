//! What there is to say about what a pod asks for, mostly what is wrong with it, in words for whoever wrote it.

use super::{
    ClaimRequest, reasons,
    template::{TemplateError, UnknownField},
};
use crate::objects::{claim_requests::PREFIX, owner_references};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

/// See the module. The same sentence is an admission warning and an event.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Notice {
    /// The event's reason.
    pub reason: &'static str,
    /// The volume named by the annotations that it is about; none if it is about an annotation that
    /// names no volume, or about the claim alone.
    pub volume: Option<Box<str>>,
    /// A complete sentence.
    pub sentence: String,
}

impl Notice {
    /// `.enabled` is neither true nor false.
    pub fn not_a_boolean(volume: &str, value: &str) -> Self {
        let value: String = value.chars().take(40).collect();
        let sentence = format!(
            "annotation \"{PREFIX}{volume}.enabled\" is {value:?}, which is neither true nor false, so no claim is made for the volume"
        );
        Self::about(volume, reasons::INVALID_ANNOTATION, sentence)
    }

    /// The key is none that means anything.
    pub fn unknown_key(key: &str) -> Self {
        let sentence = format!(
            "annotation \"{PREFIX}{key}\" means nothing; known are <volume>.enabled and <volume>.pvc after the slash"
        );
        Self::new(reasons::INVALID_ANNOTATION, sentence)
    }

    /// There is no template.
    pub fn missing_template(volume: &str) -> Self {
        let sentence = format!(
            "a claim is asked for volume \"{volume}\", but the annotation \"{PREFIX}{volume}.pvc\" with its template is missing"
        );
        Self::about(volume, reasons::MISSING_TEMPLATE, sentence)
    }

    /// There is no such volume.
    pub fn missing_volume(volume: &str) -> Self {
        let sentence = format!(
            "a claim is asked for volume \"{volume}\", but the pod has no volume of that name"
        );
        Self::about(volume, reasons::MISSING_VOLUME, sentence)
    }

    /// The volume is something else.
    pub fn not_a_claim(volume: &str) -> Self {
        let sentence = format!(
            "a claim is asked for volume \"{volume}\", but that volume is no persistentVolumeClaim"
        );
        Self::about(volume, reasons::INVALID, sentence)
    }

    /// The template cannot be read.
    pub fn invalid_template(volume: &str, error: &TemplateError) -> Self {
        let sentence = format!("the template of volume \"{volume}\" cannot be used: {error}");
        Self::about(volume, reasons::INVALID, sentence)
    }

    /// The API server refused the claim.
    pub fn failed(wish: &ClaimRequest, error: &kube::Error, then: &str) -> Self {
        let cause = cause(error);
        let fields = wish.template.unknown_fields().iter();
        // Before the cause, which may be long: a warning is cut at its end.
        let fields: String = fields.map(|field| format!(", see {field}")).collect();
        let (claim, volume) = (&wish.claim, &wish.volume);
        let sentence = format!(
            "claim \"{claim}\" for volume \"{volume}\" was not created{fields}, {then}: {cause}"
        );
        Self::about(volume, reasons::FAILED, sentence)
    }

    /// A field that is not known here. The API server may know it.
    pub fn unknown_field(volume: &str, field: &UnknownField) -> Self {
        let sentence = format!("the template of volume \"{volume}\" has, at {field}");
        Self::about(volume, reasons::INVALID, sentence)
    }

    /// A dry run of Volume Warden.
    pub fn withheld(claim: &str) -> Self {
        let sentence = format!("volume-warden (dry run) would create the claim \"{claim}\"");
        Self::new(reasons::PROVISIONED, sentence)
    }

    /// The claim is there, but not for long. `again` is whether the background makes claims.
    pub fn stale(claim: &str, again: bool) -> Self {
        let then = if again {
            "it is made anew for this pod"
        } else {
            "it is made anew; re-create the pod then"
        };
        let sentence =
            format!("claim \"{claim}\", which is being deleted, has to be gone before {then}");
        Self::new(reasons::CLAIM_TERMINATING, sentence)
    }

    /// The claim was not made at admission, and cannot be made later.
    pub fn requester_unknown(claim: &str) -> Self {
        let sentence = format!(
            "claim \"{claim}\" is made only while the pod is created, for somebody who may create claims; re-create the pod"
        );
        Self::new(reasons::REQUESTER_UNKNOWN, sentence)
    }

    /// Whoever creates the pod may not.
    pub fn forbidden(user: &str, namespace: &str) -> Self {
        let sentence = format!(
            "{user} may not create persistentvolumeclaims in namespace \"{namespace}\", so no claim is made for the pod"
        );
        Self::new(reasons::REQUESTER_UNKNOWN, sentence)
    }

    /// Nobody could say whether whoever creates the pod may.
    pub fn not_authorized(error: &kube::Error) -> Self {
        let sentence = format!(
            "whether you may create claims could not be found out, so no claim is made; re-create the pod: {}",
            cause(error)
        );
        Self::new(reasons::REQUESTER_UNKNOWN, sentence)
    }

    /// The claim is another's.
    pub fn shared(claim: &str, owners: &[OwnerReference]) -> Self {
        let owner = owner_references::controller(owners).or_else(|| owners.first());
        let owned = owner.map_or_else(
            || "nobody owns it, so it stays when the pod goes".to_owned(),
            |owner| {
                format!(
                    "it is owned by {} \"{}\" and goes with it",
                    owner.kind, owner.name
                )
            },
        );
        let sentence = format!("claim \"{claim}\" was there already and is used as it is; {owned}");
        Self::new(reasons::SHARED, sentence)
    }

    /// A claim was created.
    pub fn provisioned(claim: &str, volume: &str) -> Self {
        let sentence = format!("claim \"{claim}\" was made for volume \"{volume}\"");
        Self::about(volume, reasons::PROVISIONED, sentence)
    }

    /// Something is not as it should be.
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

/// The API server will refuse the same template again.
pub fn is_the_templates_fault(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if matches!(status.code, 400 | 422))
}

/// The API server said no, and will go on saying so until something changes.
pub fn is_refused(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if (400..429).contains(&status.code))
}

/// In the API server's words. What stands between us and it is nothing to users.
fn cause(error: &kube::Error) -> &str {
    match error {
        kube::Error::Api(status) => &status.message,
        _ => "the API server did not answer",
    }
}
