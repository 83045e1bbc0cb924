//! PersistentVolumeClaims.

mod terminating;

use crate::why::{Answer, Look, Object, World};
use k8s_openapi::api::core::v1::PersistentVolumeClaim;

/// Why it is as it is.
pub(super) fn explain(world: &World, object: &Object) -> Look<Answer> {
    let claim = match world.get::<PersistentVolumeClaim>(object.namespace_name(), &object.name.name)
    {
        Look::Found(claim) => claim,
        Look::Absent => return Look::Absent,
        Look::Unread => return Look::Unread,
    };
    let deleted = claim.metadata.deletion_timestamp.as_ref();
    if let Some(deleted) = deleted {
        let answer = Answer::of(object.to_string(), "Terminating").since(Some(deleted.0));
        return Look::Found(terminating::explain(world, object, &claim, answer));
    }
    Look::Found(Answer::of(object.to_string(), "there"))
}
