//! Parses the template of a claim in a pod's annotation: one YAML or JSON document.
//!
//! Everyone who may annotate pods can write this text, and it is parsed while a pod's creation
//! waits. Therefore syntax that a claim does not need is refused (anchors, aliases, merge keys,
//! tags, a second document), and the rest is bounded. Unknown fields are reported and kept: the
//! API server may be newer, and decides.

mod document;
mod error;
mod position;
mod shape;
mod unknown;

pub use error::{TemplateError, shown};
pub use unknown::UnknownField;

use crate::objects::keys::{
    AWAITING_POD, EXPIRE_UNUSED, OWN, PROVISIONER_LABEL, PVC_PROTECTION, UNDELETE_WINDOW,
};
use error::Fault;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use serde_json::{Map, Value, json};

/// Maximum length of a template in bytes. A claim needs a few hundred bytes; all annotations of a
/// pod together may have 256 KiB.
pub const LIMIT: usize = 16 * 1024;

/// Maximum nesting depth of maps and lists in a template.
const DEPTH: usize = 16;
/// Maximum number of keys, values, maps and lists in a template. A typical claim has about thirty.
const NODES: usize = 300;

/// Fields of `metadata` that are removed from a template: the API server sets them, or, for
/// `generateName`, the volume of the pod names the claim. A `TemplateField` is not removed but
/// refused, unless `--template-fields` names it.
const DROPPED_METADATA: [&str; 9] = [
    "uid",
    "resourceVersion",
    "generation",
    "generateName",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "managedFields",
    "selfLink",
];

/// The annotations under `volume-warden.dev/` that a template may set: how long the claim may be
/// unused, and how long it can be restored. Not the one that restores a deleted claim: its author
/// need not have permission to create claims. Nor the one about the volume of a deleted claim of
/// the same name, which a claim for a pod never gets.
const SETTINGS: [&str; 2] = [EXPIRE_UNUSED, UNDELETE_WINDOW];

/// A claim as its author wrote it, without `status` and the fields of `DROPPED_METADATA`.
#[derive(Clone, Debug, PartialEq)]
pub struct Template {
    object: Map<String, Value>,
    unknown_fields: Vec<UnknownField>,
}

/// The fields of a new claim that Volume Warden sets, whatever the template says.
#[derive(Clone, Debug)]
pub struct ClaimFields<'a> {
    /// The pod's namespace.
    pub namespace: &'a str,
    /// The name of the claim, as the pod's volume states it.
    pub name: &'a str,
    /// The controller id of the installation that creates the claim.
    pub controller_id: &'a str,
    /// A reference to the pod that owns the claim; none if the pod is not stored yet.
    pub owner: Option<OwnerReference>,
    /// The time at which admission creates the claim, for the marker; none if the claim gets its
    /// owner at its creation.
    pub awaiting_since: Option<&'a str>,
}

impl Template {
    /// Parses the text of a template.
    ///
    /// # Errors
    /// The first syntax error, exceeded limit, or deviation from the shape of a claim.
    pub fn parse(text: &str) -> Result<Self, TemplateError> {
        if text.len() > LIMIT {
            return Err(TemplateError::whole(Fault::TooLong(text.len())));
        }
        let document = document::read(text)?;
        let fields = shape::of_a_claim(&document)?;
        let mut object = fields.object();
        strip(&mut object);
        Ok(Self {
            unknown_fields: unknown::fields(&document, &object),
            object,
        })
    }

    /// The fields of the template that Volume Warden does not know, in the order of the text.
    pub fn unknown_fields(&self) -> &[UnknownField] {
        &self.unknown_fields
    }

    /// The value at this path; none if the template has no such field.
    pub fn get(&self, path: &[&str]) -> Option<&Value> {
        let (first, rest) = path.split_first()?;
        let first = self.object.get(*first)?;
        rest.iter().try_fold(first, |value, field| value.get(field))
    }

    /// The manifest of the claim to create from the template.
    pub fn manifest(&self, fields: &ClaimFields<'_>) -> Value {
        let mut object = self.object.clone();
        let mut metadata = take(&mut object, "metadata");
        let labels = labels(take(&mut metadata, "labels"), fields);
        let annotations = annotations(take(&mut metadata, "annotations"), fields);
        let finalizers = finalizers(metadata.remove("finalizers"));
        metadata.remove("ownerReferences");
        metadata.extend([
            ("name".to_owned(), json!(fields.name)),
            ("namespace".to_owned(), json!(fields.namespace)),
            ("labels".to_owned(), Value::Object(labels)),
            ("finalizers".to_owned(), Value::Array(finalizers)),
        ]);
        if !annotations.is_empty() {
            metadata.insert("annotations".to_owned(), Value::Object(annotations));
        }
        if let Some(owner) = &fields.owner {
            metadata.insert("ownerReferences".to_owned(), json!([owner]));
        }
        object.insert("metadata".to_owned(), Value::Object(metadata));
        Value::Object(object)
    }
}

/// The template's labels, and the label by which Volume Warden recognizes its claims.
fn labels(mut labels: Map<String, Value>, fields: &ClaimFields<'_>) -> Map<String, Value> {
    labels.insert(PROVISIONER_LABEL.to_owned(), json!(fields.controller_id));
    labels
}

/// The template's annotations, of those under `volume-warden.dev/` only the [`SETTINGS`], and the
/// marker if the claim awaits its pod.
fn annotations(
    mut annotations: Map<String, Value>,
    fields: &ClaimFields<'_>,
) -> Map<String, Value> {
    annotations.retain(|key, _| !key.starts_with(OWN) || SETTINGS.contains(&&**key));
    if let Some(since) = fields.awaiting_since {
        annotations.insert(AWAITING_POD.to_owned(), json!(since));
    }
    annotations
}

/// The template's finalizers, and the protection finalizer that every claim gets.
fn finalizers(written: Option<Value>) -> Vec<Value> {
    let mut finalizers = match written {
        Some(Value::Array(finalizers)) => finalizers,
        _ => Vec::new(),
    };
    if !finalizers.iter().any(|each| each == PVC_PROTECTION) {
        finalizers.push(json!(PVC_PROTECTION));
    }
    finalizers
}

fn strip(object: &mut Map<String, Value>) {
    object.remove("status");
    if let Some(Value::Object(metadata)) = object.get_mut("metadata") {
        metadata.retain(|field, _| !DROPPED_METADATA.contains(&&**field));
    }
}

/// Removes a field and returns its map, which is empty if the field is absent or null. A field of
/// another type is not possible, because the shape of the template has been checked.
fn take(object: &mut Map<String, Value>, field: &str) -> Map<String, Value> {
    match object.remove(field) {
        Some(Value::Object(map)) => map,
        _ => Map::new(),
    }
}

#[cfg(test)]
#[path = "template_tests.rs"]
mod tests;
