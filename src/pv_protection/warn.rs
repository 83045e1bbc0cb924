//! The warning to whoever deletes a volume that will be held.

use crate::{
    admission::{Answer, Hook, Request, Review, Rule},
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

fn deleted(request: &Request) -> Answer {
    let volume = match request.old_object::<VolumeWire>() {
        Ok(wire) => Volume::from(wire),
        Err(unreadable) => return unreadable,
    };
    let holders = causes::volume_holders(&volume).collect::<Vec<_>>();
    Answer::warned(causes::warning(&Object::volume(&request.name), &holders))
}
