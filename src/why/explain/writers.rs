//! Who wrote what on an object, by its `managedFields`.

use crate::why::{Cause, Code};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;
use kube::api::ObjectMeta;
use serde_json::Value;

/// The cause, and for a foreign finalizer also who put it on the object.
pub(super) fn told(mut cause: Cause, metadata: &ObjectMeta) -> Cause {
    if cause.code != Code::ForeignFinalizer {
        return cause;
    }
    let finalizers = metadata.finalizers.iter().flatten();
    let mentioned = finalizers.filter(|finalizer| cause.sentence.contains(finalizer.as_str()));
    let Some(finalizer) = mentioned.max_by_key(|finalizer| finalizer.len()) else {
        return cause;
    };
    let item = format!("v:\"{finalizer}\"");
    let Some(writer) = writer(metadata, &["f:metadata", "f:finalizers", &item]) else {
        return cause;
    };
    let manager = writer.manager.as_deref().unwrap_or("somebody unnamed");
    cause.sentence = format!(
        "{} It was put there by {manager}; whether that still runs, nothing here can tell.",
        cause.sentence
    );
    cause.evidence.since = writer.time.as_ref().map(|time| time.0);
    cause
}

/// Who wrote that field last.
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
