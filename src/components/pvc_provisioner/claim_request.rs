//! The request of a pod for a claim, made by annotation.

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
    pub template: Template,
}
