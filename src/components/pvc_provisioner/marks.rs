//! The webhook that strips the marker from claims that other clients create.
//!
//! A claim that a user creates from another claim's manifest, or from a backup, was not created
//! for a pod. With the marker it would be collected.

use crate::{
    admission::{Answer, Hook, Request, Review, Reviewed, Rule},
    objects::claim::{AWAITING_POD, ClaimWire},
};
use std::time::Duration;

/// The webhook for marked claims that other clients create. The webhook configuration excludes
/// claims that Volume Warden's service account creates.
pub fn strip_marker_hook() -> Hook {
    Hook {
        path: "/pvc-provisioner/marks",
        rules: &[Rule("CREATE", "persistentvolumeclaims")],
        timeout: Duration::from_secs(2),
        review: Review::from_memory(review),
    }
}

fn review(request: &Request) -> Reviewed {
    let claim = request.object::<ClaimWire>()?;
    Ok(Answer::without_annotation(&claim.metadata, AWAITING_POD))
}
