//! The claim that a pod's annotation describes: one YAML or JSON document, read as it is written.
//!
//! Who may write annotations on pods writes this text, and it is parsed while a pod's creation waits. So what is not needed to write
//! a claim is refused (anchors, aliases, merge keys, tags, a second document), and the rest is bounded. A field that is not known
//! here is told of and kept: the API server may be newer, and has the last word.

mod document;
mod error;
mod place;
mod shape;
mod unknown;

pub use error::TemplateError;
pub use unknown::UnknownField;

use crate::objects::{
    claim::AWAITING_POD, finalizers::PVC_PROTECTION, managed_by::PROVISIONER_LABEL,
};
use error::Fault;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use serde_json::{Map, Value, json};

/// A longer text is not even looked at. A claim needs a few hundred bytes; all annotations of a pod together may have 256 KiB.
pub const LIMIT: usize = 16 * 1024;

/// Levels of nested maps and lists.
const DEPTH: usize = 16;
/// Keys, values, maps and lists. A claim has about thirty.
const NODES: usize = 300;

/// Annotations that begin with this are ours alone.
const OURS: &str = "volume-warden.dev/";

/// Of `metadata`, what the API server sets, or what another field makes meaningless.
const NOT_THE_TEMPLATES: [&str; 9] = [
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

/// A claim as it was written, without what is not the template's to say.
#[derive(Clone, Debug, PartialEq)]
pub struct Template {
    object: Map<String, Value>,
    unknown_fields: Vec<UnknownField>,
}

/// What is not the template's to say.
#[derive(Clone, Debug)]
pub struct Birth<'a> {
    /// The pod's.
    pub namespace: &'a str,
    /// The name that the pod's volume gives the claim.
    pub name: &'a str,
    /// Who makes the claim.
    pub controller_id: &'a str,
    /// The pod, once it is stored.
    pub owner: Option<OwnerReference>,
    /// Since when the claim waits for a pod that is not stored yet.
    pub awaiting_since: Option<&'a str>,
}

impl Template {
    /// Reads the text, or says what is wrong with it.
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

    /// Fields that no claim has as far as is known here, in the order of the text.
    pub fn unknown_fields(&self) -> &[UnknownField] {
        &self.unknown_fields
    }

    /// The claim to create.
    pub fn manifest(&self, birth: &Birth<'_>) -> Value {
        let mut object = self.object.clone();
        let mut metadata = take(&mut object, "metadata");
        let labels = labels(take(&mut metadata, "labels"), birth);
        let annotations = annotations(take(&mut metadata, "annotations"), birth);
        let finalizers = finalizers(metadata.remove("finalizers"));
        metadata.remove("ownerReferences");
        metadata.extend([
            ("name".to_owned(), json!(birth.name)),
            ("namespace".to_owned(), json!(birth.namespace)),
            ("labels".to_owned(), Value::Object(labels)),
            ("finalizers".to_owned(), Value::Array(finalizers)),
        ]);
        if !annotations.is_empty() {
            metadata.insert("annotations".to_owned(), Value::Object(annotations));
        }
        if let Some(owner) = &birth.owner {
            metadata.insert("ownerReferences".to_owned(), json!([owner]));
        }
        object.insert("metadata".to_owned(), Value::Object(metadata));
        Value::Object(object)
    }
}

/// The template's, and by which we know our own.
fn labels(mut labels: Map<String, Value>, birth: &Birth<'_>) -> Map<String, Value> {
    labels.insert(PROVISIONER_LABEL.to_owned(), json!(birth.controller_id));
    labels
}

/// The template's, except what would pass for ours.
fn annotations(mut annotations: Map<String, Value>, birth: &Birth<'_>) -> Map<String, Value> {
    annotations.retain(|key, _| !key.starts_with(OURS));
    if let Some(since) = birth.awaiting_since {
        annotations.insert(AWAITING_POD.to_owned(), json!(since));
    }
    annotations
}

/// The template's, and the one that every claim gets.
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
        metadata.retain(|field, _| !NOT_THE_TEMPLATES.contains(&&**field));
    }
}

/// A map that may be absent, or null. It is nothing else: its shape has been checked.
fn take(object: &mut Map<String, Value>, field: &str) -> Map<String, Value> {
    match object.remove(field) {
        Some(Value::Object(map)) => map,
        _ => Map::new(),
    }
}

#[cfg(test)]
#[path = "template_tests.rs"]
mod tests;
