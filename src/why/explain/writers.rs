//! Finds the client that wrote a field of an object, from its `managedFields`.

use crate::causes::{self, Cause, Holder, Object};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;
use kube::api::ObjectMeta;
use serde_json::Value;

/// Explains why `holder` prevents the deletion of the object. For a finalizer of another
/// controller, the cause names the client that added it, if the `managedFields` do.
pub(super) fn describe(object: &Object, holder: &Holder<'_>, metadata: &ObjectMeta) -> Cause {
    let cause = causes::describe(object, holder);
    match holder {
        Holder::Finalizer(finalizer) => attribute(cause, finalizer, metadata),
        _ => cause,
    }
}

/// Adds to the cause which field manager added the finalizer, if the `managedFields` name it.
fn attribute(mut cause: Cause, finalizer: &str, metadata: &ObjectMeta) -> Cause {
    let item = format!("v:\"{finalizer}\"");
    let Some(writer) = writer(metadata, &["f:metadata", "f:finalizers", &item]) else {
        return cause;
    };
    let manager = writer.manager.as_deref().unwrap_or("an unnamed client");
    cause.evidence.since = writer.time.as_ref().map(|time| time.0);
    cause.adding(&format!(
        "The field manager {manager} added the finalizer; it is not known whether that controller still runs."
    ))
}

/// Returns the first entry of `managedFields` whose client owns the field at this path.
pub(super) fn writer<'a>(
    metadata: &'a ObjectMeta,
    path: &[&str],
) -> Option<&'a ManagedFieldsEntry> {
    let mut entries = metadata.managed_fields.iter().flatten();
    entries.find(|entry| {
        let fields = entry.fields_v1.as_ref().map(|fields| &fields.0);
        let found = fields.and_then(|fields| within(fields, path));
        found.is_some()
    })
}

fn within<'a>(fields: &'a Value, path: &[&str]) -> Option<&'a Value> {
    path.iter().try_fold(fields, |at, key| at.get(key))
}
