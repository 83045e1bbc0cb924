//! The doors at admission: the finalizer at birth, and the guard against a new binding of a deleting volume.

use super::NAME;
use crate::{
    admission::{Answer, Hook, Request, Rule},
    cluster::Feed,
    objects::{
        Claim, ObjectName, Volume,
        finalizers::{self, PV_PROTECTION, Standing},
        volume::VolumeWire,
    },
};
use std::sync::Arc;

/// The webhooks of this component.
pub fn hooks(claims: &Arc<Feed<Claim>>) -> Vec<Hook> {
    let claims = claims.clone();
    vec![
        Hook {
            path: "/pv-protection/volumes",
            component: NAME,
            rules: &[Rule {
                operation: "CREATE",
                resource: "persistentvolumes",
                subresource: "",
            }],
            review: Arc::new(protect),
        },
        Hook {
            path: "/pv-protection/bind",
            component: NAME,
            rules: &[
                Rule {
                    operation: "UPDATE",
                    resource: "persistentvolumes",
                    subresource: "",
                },
                Rule {
                    operation: "UPDATE",
                    resource: "persistentvolumes",
                    subresource: "status",
                },
            ],
            review: Arc::new(move |request| guard(&claims, request)),
        },
    ]
}

/// A new volume carries the finalizer from birth.
fn protect(request: &Request) -> Answer {
    let volume = match request.object::<VolumeWire>() {
        Ok(wire) => Volume::from(wire),
        Err(unreadable) => return unreadable,
    };
    match volume.standing() {
        Standing::NeedsFinalizer => Answer::Patch {
            operations: vec![finalizers::append(&volume.finalizers, PV_PROTECTION)],
            what: format!("add the finalizer {PV_PROTECTION}"),
        },
        Standing::DeletionCandidate | Standing::Settled => Answer::Allow,
    }
}

/// Refuses to bind a volume that is being deleted.
///
/// The claim tells a new binding from the repair of an old one: a claim that names this volume and whose binding was completed
/// would lose its data if the binder could not write the volume's side again.
fn guard(claims: &Feed<Claim>, request: &Request) -> Answer {
    let (volume, before) = match (
        request.object::<VolumeWire>(),
        request.old_object::<VolumeWire>(),
    ) {
        (Ok(volume), Ok(before)) => (volume, before),
        (Err(unreadable), _) | (_, Err(unreadable)) => return unreadable,
    };
    if volume.metadata.deletion_timestamp.is_none() || !binds(&before, &volume) {
        return Answer::Allow;
    }
    if !claims.is_synced() {
        return Answer::Unavailable("the watch of claims has no complete list yet");
    }
    let name = volume.metadata.name.as_deref().unwrap_or_default();
    let Some(claim_ref) = &volume.spec.claim_ref else {
        return Answer::Allow;
    };
    let claim = claims.read().get(&ObjectName::new(
        claim_ref.namespace.as_str(),
        claim_ref.name.as_str(),
    ));
    if claim.is_some_and(|claim| *claim.uid == *claim_ref.uid && claim.is_bound_to(name)) {
        return Answer::Allow;
    }
    Answer::deny(format!(
        "persistentvolume \"{name}\" is being deleted, so it is not bound to the claim {}/{}. Let the claim use another volume, or \
         wait until this one is gone and has been created anew.",
        claim_ref.namespace, claim_ref.name
    ))
}

/// Whether the update is a binding: a claim's uid appears in `claimRef`, or the phase becomes Bound.
fn binds(before: &VolumeWire, after: &VolumeWire) -> bool {
    let claimed = !after.claim_uid().is_empty() && after.claim_uid() != before.claim_uid();
    claimed || (after.is_bound() && !before.is_bound())
}
