//! The door at admission: a volume that is made for a claim of ours is ours from birth, so that a claim of two seconds leaves no
//! volume behind that nobody knows.

use super::{
    known::Known,
    patch::association,
    rule::{Attachment, Decision},
};
use crate::{
    admission::{Answer, Hook, Request, Review, Rule},
    objects::{Volume, managed_by::RELEASER_LABEL, volume::VolumeWire},
};
use std::time::Duration;

/// The webhook for new volumes.
pub fn hook(known: &Known) -> Hook {
    let known = known.clone();
    Hook {
        path: "/pv-releaser/volumes",
        rules: &[Rule {
            operation: "CREATE",
            resource: "persistentvolumes",
            subresource: "",
        }],
        timeout: Duration::from_secs(2),
        review: Review::from_memory(move |request| review(&known, request)),
    }
}

/// Nothing is refused, and nothing waits for a watch: the reconciler labels what was missed here.
fn review(known: &Known, request: &Request) -> Answer {
    let volume = match request.object::<VolumeWire>() {
        Ok(wire) => Volume::from(wire),
        Err(unreadable) => return unreadable,
    };
    match known.judge_with(&volume, Attachment::NotKnown) {
        Decision::Associate => Answer::Patch {
            operations: association(&volume, &known.options.id),
            what: format!("add the label {RELEASER_LABEL}={}", known.options.id),
        },
        Decision::Leave(_) | Decision::Confirm | Decision::Release => Answer::Allow,
    }
}
