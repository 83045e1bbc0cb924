//! The other webhook at admission: nobody brings our mark along.
//!
//! A claim that somebody makes from another one's manifest, or from a backup, was made for no pod, and would be collected.

use crate::{
    admission::{Answer, Hook, Request, Review, Reviewed, Rule},
    objects::claim::{AWAITING_POD, ClaimWire},
};
use std::time::Duration;

/// The webhook for marked claims that others create. What our own account creates is not sent here: the webhook configuration says so.
pub fn strip_marker_hook() -> Hook {
    Hook {
        path: "/pvc-provisioner/marks",
        rules: &[Rule {
            operation: "CREATE",
            resource: "persistentvolumeclaims",
            subresource: "",
        }],
        timeout: Duration::from_secs(2),
        review: Review::from_memory(review),
    }
}

fn review(request: &Request) -> Reviewed {
    let claim = request.object::<ClaimWire>()?;
    Ok(Answer::without_annotation(&claim.metadata, AWAITING_POD))
}
