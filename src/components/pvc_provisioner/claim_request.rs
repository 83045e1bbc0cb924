//! A claim that a pod requests by annotation.

use super::template::Template;
use std::sync::Arc;

/// A claim that a pod requests by annotation.
#[derive(Clone, Debug)]
pub struct ClaimRequest {
    /// The pod's volume.
    pub volume: Box<str>,
    /// The claim's name.
    pub claim: Arc<str>,
    /// What the claim is to be.
    pub template: Template,
}
