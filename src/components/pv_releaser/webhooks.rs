//! The door at admission: a volume that is made for a claim of ours is ours from birth, so that a claim of two seconds leaves no
//! volume behind that nobody knows.

use super::{
    caches::Caches,
    patch::association,
    rule::{Attachment, Decision},
};
use crate::{
    admission::{Answer, Hook, Request, Review, Reviewed, Rule},
    objects::{Volume, managed_by::RELEASER_LABEL, volume::VolumeWire},
};
use std::time::Duration;

/// The webhook for new volumes.
pub fn hook(caches: &Caches) -> Hook {
    let caches = caches.clone();
    Hook {
        path: "/pv-releaser/volumes",
        rules: &[Rule {
            operation: "CREATE",
            resource: "persistentvolumes",
            subresource: "",
        }],
        timeout: Duration::from_secs(2),
        review: Review::from_memory(move |request| review(&caches, request)),
    }
}

/// Nothing is refused, and nothing waits for a watch: the reconciler labels what was missed here.
fn review(caches: &Caches, request: &Request) -> Reviewed {
    let volume = Volume::from(request.object::<VolumeWire>()?);
    Ok(match caches.judge_with(&volume, Attachment::NotKnown) {
        Decision::Associate => Answer::Patch {
            operations: association(&volume, &caches.options.id),
            what: format!("add the label {RELEASER_LABEL}={}", caches.options.id),
        },
        Decision::Leave(_) | Decision::Confirm | Decision::Release => Answer::Allow,
    })
}
