//! Checks that a document has the shape of a claim: in `apiVersion`, `kind`, `metadata`, and the
//! labels, annotations and finalizers. The API server validates all other fields.

use super::{
    document::{Fields, Located, Node},
    error::{Fault, TemplateError, shown},
};
use serde_json::Value;

/// The fields of the document, if it has the shape of a claim.
pub(super) fn of_a_claim(document: &Located<Node>) -> Result<&Fields, TemplateError> {
    if is_null(&document.it) {
        return Err(TemplateError::whole(Fault::Empty));
    }
    let claim = map(document, "a template", "a map")?;
    constant(claim, "apiVersion", "v1")?;
    constant(claim, "kind", "PersistentVolumeClaim")?;
    if let Some(metadata) = given(claim, "metadata") {
        of_metadata(map(metadata, "metadata", "a map")?)?;
    }
    Ok(claim)
}

fn of_metadata(metadata: &Fields) -> Result<(), TemplateError> {
    for (field, path) in [
        ("labels", "metadata.labels"),
        ("annotations", "metadata.annotations"),
    ] {
        if let Some(strings) = given(metadata, field) {
            let expected = "a map of strings";
            let fields = &map(strings, path, expected)?.0;
            fields
                .iter()
                .try_for_each(|(_, each)| string(each, path, expected))?;
        }
    }
    match given(metadata, "finalizers") {
        Some(finalizers) => strings(finalizers, "metadata.finalizers"),
        None => Ok(()),
    }
}

/// The value of the field; none if it is absent, or null, which the API server treats as absent.
fn given<'a>(fields: &'a Fields, name: &str) -> Option<&'a Located<Node>> {
    let (_, value) = fields.get(name)?;
    Some(value).filter(|value| !is_null(&value.it))
}

fn is_null(node: &Node) -> bool {
    matches!(node, Node::Scalar(Value::Null))
}

fn constant(
    fields: &Fields,
    name: &'static str,
    expected: &'static str,
) -> Result<(), TemplateError> {
    let Some(value) = given(fields, name) else {
        return Err(TemplateError::whole(Fault::Missing(name, expected)));
    };
    match &value.it {
        Node::Scalar(Value::String(it)) if it == expected => Ok(()),
        Node::Scalar(it) => {
            let it = shown(&it.to_string());
            Err(TemplateError::at(
                value.position,
                Fault::Other(name, expected, it),
            ))
        }
        Node::List(_) | Node::Map(_) => Err(wrong(value, name, "a string")),
    }
}

fn map<'a>(
    value: &'a Located<Node>,
    path: &'static str,
    expected: &'static str,
) -> Result<&'a Fields, TemplateError> {
    match &value.it {
        Node::Map(fields) => Ok(fields),
        Node::List(_) | Node::Scalar(_) => Err(wrong(value, path, expected)),
    }
}

fn strings(value: &Located<Node>, path: &'static str) -> Result<(), TemplateError> {
    let expected = "a list of strings";
    match &value.it {
        Node::List(list) => list
            .iter()
            .try_for_each(|each| string(each, path, expected)),
        Node::Map(_) | Node::Scalar(_) => Err(wrong(value, path, expected)),
    }
}

/// Requires a string. Null is none: the API server stores an empty string for it, so the claim
/// would have a label or annotation that the template does not show.
fn string(
    value: &Located<Node>,
    path: &'static str,
    expected: &'static str,
) -> Result<(), TemplateError> {
    match &value.it {
        Node::Scalar(Value::String(_)) => Ok(()),
        _ => Err(wrong(value, path, expected)),
    }
}

fn wrong(value: &Located<Node>, path: &'static str, expected: &'static str) -> TemplateError {
    TemplateError::at(value.position, Fault::Shape(path, expected))
}
