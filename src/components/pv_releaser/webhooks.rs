//! The webhook of pv-releaser: labels a volume that is created for a managed claim, so that even a
//! claim that exists for two seconds leaves no unlabelled volume.

use super::{
    caches::Caches,
    patch::association,
    rule::{Attachment, Decision, Unconfirmed},
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
        rules: &[Rule("CREATE", "persistentvolumes")],
        timeout: Duration::from_secs(2),
        review: Review::from_memory(move |request| review(&caches, request)),
    }
}

/// Labels the new volume if its claim is managed. The review refuses no volume and waits for no
/// watch: the reconciler labels the volumes that the webhook missed.
fn review(caches: &Caches, request: &Request) -> Reviewed {
    let volume = Volume::from(request.object::<VolumeWire>()?);
    Ok(
        match caches.judge_with(&volume, Attachment::Detached(Unconfirmed)) {
            Decision::Associate => Answer::Patch {
                operations: association(&volume, &caches.options.id),
                what: format!("add the label {RELEASER_LABEL}={}", caches.options.id),
                warnings: Vec::new(),
            },
            Decision::Leave(_) | Decision::Release(Unconfirmed) => Answer::Allow,
        },
    )
}
