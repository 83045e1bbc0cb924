//! Namespaces.

use crate::why::{Answer, Look, Object, World};
use k8s_openapi::api::core::v1::Namespace;

/// Why it is as it is.
pub(super) fn explain(world: &World, object: &Object) -> Look<Answer> {
    match world.get::<Namespace>(object.namespace_name(), &object.name.name) {
        Look::Found(_) => Look::Found(Answer::of(object.to_string(), "there")),
        Look::Absent => Look::Absent,
        Look::Unread => Look::Unread,
    }
}
