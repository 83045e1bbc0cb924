//! A claim that a pod requests by annotation.

use super::template::Template;
use std::sync::Arc;

/// A claim that a pod requests by annotation.
#[derive(Clone, Debug)]
pub struct ClaimRequest {
    /// The name of the pod's volume.
    pub volume: Box<str>,
    /// The claim's name.
    pub claim: Arc<str>,
    /// The claim to create.
    pub template: Template,
}
