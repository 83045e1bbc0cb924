//! The fields of a template that are no fields of a claim, as the types know it that this program was built with.

use super::{
    document::{Node, Placed},
    error::shown,
    place::Place,
};
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use serde_ignored::Path;
use serde_json::{Map, Value};
use std::fmt;

/// A field that is not known here: misspelt, or of a newer Kubernetes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownField {
    /// As the API server would write it, for instance `spec.storageclassName`.
    pub path: String,
    /// Where its name stands in the text, from 1.
    pub line: u64,
    /// In that line, from 1.
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

/// The unknown fields of the object, which was written like this. A value of a wrong type ends the search, and is no fault found here:
/// the API server takes some, such as a number for a quantity, and refuses the others in its own words.
pub(super) fn fields(written: &Placed<Node>, object: &Map<String, Value>) -> Vec<UnknownField> {
    let mut found = Vec::new();
    let tell = |path: Path<'_>| {
        found.extend(follow(&path, written).map(|step| step.field));
    };
    let _: Result<PersistentVolumeClaim, _> = serde_ignored::deserialize(object, tell);
    found.sort_by_key(|field| (field.line, field.column));
    found
}

/// Where a path leads to.
struct Step<'a> {
    field: UnknownField,
    value: &'a Node,
}

impl<'a> Step<'a> {
    fn new(path: String, place: Place, value: &'a Node) -> Self {
        let Place { line, column } = place;
        let field = UnknownField { path, line, column };
        Self { field, value }
    }
}

fn follow<'a>(path: &Path<'_>, root: &'a Placed<Node>) -> Option<Step<'a>> {
    match path {
        Path::Root => Some(Step::new(String::new(), root.place, &root.it)),
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
            Some(Step::new(path, name.place, &value.it))
        }
        Path::Seq { parent, index } => {
            let parent = follow(parent, root)?;
            let Node::List(list) = parent.value else {
                return None;
            };
            let each = list.get(*index)?;
            let path = format!("{}[{index}]", parent.field.path);
            Some(Step::new(path, each.place, &each.it))
        }
    }
}
