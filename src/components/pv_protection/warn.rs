//! The admission warning for a user who deletes a volume that finalizers will hold.

use crate::{
    admission::{Answer, Hook, Request, Review, Reviewed, Rule},
    causes::{self, Object},
    objects::{Volume, volume::VolumeWire},
};
use std::time::Duration;

/// The webhook for deletions of volumes. It warns what will keep the volume Terminating: its claim
/// while the volume is Bound, or else a finalizer of another controller. It refuses nothing and
/// needs no watch, because the request contains the volume.
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
