//! The request of a pod for a claim, made by annotation, and who creates the claim.

use super::template::Template;
use std::sync::Arc;

/// The request of a pod for a claim, made by annotation.
#[derive(Clone, Debug)]
pub struct ClaimRequest {
    /// The name of the pod's volume for which the claim is requested.
    pub volume: Box<str>,
    /// The name of the requested claim.
    pub claim: Arc<str>,
    /// The template of the claim to create.
    pub template: Arc<Template>,
}

/// Who creates a requested claim that did not exist when the pod was reviewed, or that is deleted
/// later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Creator {
    /// The reconciler, in the background.
    Reconciler,
    /// Admission, together with another pod, because of `--authorize-requester=pod-creator`.
    Admission,
    /// Users only, because of that flag, in a namespace whose pods are not reviewed.
    User,
}

impl Creator {
    /// Says who creates claims, by whether the requester of a claim is checked, and whether the
    /// pods of the namespace are reviewed.
    pub fn of(authorizes: bool, reviews: bool) -> Self {
        match (authorizes, reviews) {
            (false, _) => Self::Reconciler,
            (true, true) => Self::Admission,
            (true, false) => Self::User,
        }
    }
}
