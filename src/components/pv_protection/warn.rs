//! The warning to whoever deletes a volume that will be held.

use crate::{
    admission::{Answer, Hook, Request, Review, Reviewed, Rule},
    causes::{self, Object},
    objects::{Volume, volume::VolumeWire},
};
use std::time::Duration;

/// The webhook that says who holds the volume. It never refuses anything, and needs no watch: the volume itself says who has it.
pub fn deletions_hook() -> Hook {
    Hook {
        path: "/pv-protection/deletions",
        rules: &[Rule {
            operation: "DELETE",
            resource: "persistentvolumes",
            subresource: "",
        }],
        timeout: Duration::from_secs(1),
        review: Review::from_memory(deleted),
    }
}

fn deleted(request: &Request) -> Reviewed {
    let volume = Volume::from(request.old_object::<VolumeWire>()?);
    let holders = causes::volume_holders(&volume).collect::<Vec<_>>();
    Ok(Answer::warned(causes::warning(
        &Object::volume(&request.name),
        &holders,
    )))
}
