//! Claims that live and are bound.

use crate::{
    components::Component,
    objects::finalizers::PVC_PROTECTION,
    why::{
        Cause, Object, World,
        explain::{retention, webhooks},
    },
};
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::ResourceExt;

/// What is to become of it: by its owners, by its set's retention policy; and whether it is protected.
pub(super) fn causes(world: &World, object: &Object, claim: &PersistentVolumeClaim) -> Vec<Cause> {
    if let Some(unprotected) = unprotected(world, claim) {
        return vec![unprotected];
    }
    retention::causes(world, object, claim)
}

fn unprotected(world: &World, claim: &PersistentVolumeClaim) -> Option<Cause> {
    if claim.finalizers().iter().any(|each| each == PVC_PROTECTION) {
        return None;
    }
    webhooks::cause(
        world,
        &format!("volume-warden-{}", Component::PvcProtection),
    )
}
