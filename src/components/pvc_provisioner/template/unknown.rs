//! Finds the fields of a template that a claim does not have, according to the API types that
//! Volume Warden was built with.

use super::{
    document::{Located, Node},
    error::shown,
    position::Position,
};
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use serde_ignored::Path;
use serde_json::{Map, Value};
use std::fmt;

/// A field of a template that Volume Warden does not know: for example, it is misspelt, in the
/// wrong place, or of a newer Kubernetes version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownField {
    /// The path of the field as the API server writes it, for instance `spec.storageclassName`.
    pub path: String,
    /// The line of the field's name, from 1.
    pub line: u64,
    /// The column of the field's name, from 1.
    pub column: u64,
}

impl fmt::Display for UnknownField {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, line, column } = self;
        let path = shown(path);
        write!(
            out,
            "line {line}, column {column}: unknown field \"{path}\""
        )
    }
}

/// The unknown fields of `object`, with their positions in `written`. A value of a wrong type ends
/// the search without an error: the API server accepts some such values, for example a number for a
/// quantity, and refuses the others with its own message.
pub(super) fn fields(written: &Located<Node>, object: &Map<String, Value>) -> Vec<UnknownField> {
    let mut found = Vec::new();
    let report = |path: Path<'_>| {
        found.extend(follow(&path, written).map(|step| step.field));
    };
    let _: Result<PersistentVolumeClaim, _> = serde_ignored::deserialize(object, report);
    found.sort_by_key(|field| (field.line, field.column));
    found
}

/// A field of the template with its path and position, and its value.
struct Step<'a> {
    field: UnknownField,
    value: &'a Node,
}

impl<'a> Step<'a> {
    fn new(path: String, position: Position, value: &'a Node) -> Self {
        let Position { line, column } = position;
        let field = UnknownField { path, line, column };
        Self { field, value }
    }
}

fn follow<'a>(path: &Path<'_>, root: &'a Located<Node>) -> Option<Step<'a>> {
    match path {
        Path::Root => Some(Step::new(String::new(), root.position, &root.it)),
        Path::Some { parent }
        | Path::NewtypeStruct { parent }
        | Path::NewtypeVariant { parent } => follow(parent, root),
        Path::Map { parent, key } => {
            let parent = follow(parent, root)?;
            let Node::Map(fields) = parent.value else {
                return None;
            };
            let (name, value) = fields.get(key)?;
            let dot = if parent.field.path.is_empty() {
                ""
            } else {
                "."
            };
            let path = format!("{}{dot}{key}", parent.field.path);
            Some(Step::new(path, name.position, &value.it))
        }
        Path::Seq { parent, index } => {
            let parent = follow(parent, root)?;
            let Node::List(list) = parent.value else {
                return None;
            };
            let each = list.get(*index)?;
            let path = format!("{}[{index}]", parent.field.path);
            Some(Step::new(path, each.position, &each.it))
        }
    }
}
