//! The webhook that removes the marker of pvc-provisioner from claims that other clients create.
//!
//! A claim that a user creates from another claim's manifest, or from a backup, was not created for
//! a pod. With the marker, Volume Warden could delete it as an orphan.

use crate::{
    admission::{Answer, Hook, Request, Review, Reviewed, Rule},
    objects::claim::{AWAITING_POD, ClaimWire},
};
use std::time::Duration;

/// The webhook that removes the marker from claims of other clients. The webhook configuration
/// excludes claims that Volume Warden's service account creates.
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
