//! The webhook that removes the marker of pvc-provisioner if another client adds it to a claim.
//!
//! A claim that a user creates from another claim's manifest, or from a backup, was not created for
//! a pod. With the marker, Volume Warden could delete it as an orphan. The client may apply the
//! manifest again and again, as GitOps controllers do, so updates are reviewed as well.

use crate::{
    admission::{Hook, Request, Review, Reviewed, Rule, without_added_annotation},
    objects::claim::{AWAITING_POD, ClaimWire},
};
use std::time::Duration;

/// The webhook that removes the marker if another client writes it. The webhook configuration
/// excludes the requests of Volume Warden's service account.
pub fn strip_marker_hook() -> Hook {
    Hook {
        path: "/pvc-provisioner/marks",
        rules: &[
            Rule("CREATE", "persistentvolumeclaims"),
            Rule("UPDATE", "persistentvolumeclaims"),
        ],
        timeout: Duration::from_secs(2),
        review: Review::from_memory(review),
    }
}

fn review(request: &Request) -> Reviewed {
    without_added_annotation::<ClaimWire>(request, AWAITING_POD)
}
