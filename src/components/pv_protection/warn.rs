//! The admission warning for a user who deletes a volume that finalizers will hold.

use crate::{
    admission::{Answer, Hook, Request, Review, Reviewed, Rule},
    causes::{self, Object},
    objects::{Volume, volume::VolumeWire},
};
use std::time::Duration;

/// The webhook that warns which finalizers will hold the volume. The webhook refuses nothing and
/// needs no watch: the holders can be read from the volume itself.
pub fn deletions_hook() -> Hook {
    Hook {
        path: "/pv-protection/deletions",
        rules: &[Rule("DELETE", "persistentvolumes")],
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
