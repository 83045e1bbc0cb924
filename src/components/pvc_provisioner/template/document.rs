//! Parses a YAML or JSON document, with the position of every key and value.
//!
//! JSON is parsed as YAML. The limits of the parser are set here, because its defaults are for
//! trusted files.

use super::{
    DEPTH, NODES,
    error::{Fault, TemplateError},
    position::Position,
};
use serde::{
    Deserialize, Deserializer,
    de::{Error, MapAccess, SeqAccess, Visitor},
};
use serde_json::{Map, Value};
use serde_saphyr::{DuplicateKeyPolicy, MergeKeyPolicy, Options, Spanned, Tagged};
use std::fmt;

/// A key or value of a document, and its position.
#[derive(Debug)]
pub(super) struct Located<T> {
    pub position: Position,
    pub it: T,
}

/// A value of a YAML or JSON document: a scalar, a list or a map.
#[derive(Debug)]
pub(super) enum Node {
    /// Null, a boolean, a number or a string.
    Scalar(Value),
    List(Vec<Located<Node>>),
    Map(Fields),
}

/// A map of a document in the order of the text, with unique keys.
#[derive(Debug)]
pub(super) struct Fields(pub Vec<(Located<Name>, Located<Node>)>);

/// A key of a map in a YAML or JSON document.
#[derive(Debug)]
pub(super) struct Name(pub String);

/// Parses the single document of the text.
pub(super) fn read(text: &str) -> Result<Located<Node>, TemplateError> {
    serde_saphyr::from_str_with_options(text, options()).map_err(|error| TemplateError::of(&error))
}

fn options() -> Options {
    serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_documents: 1,
            max_aliases: 0,
            max_anchors: 0,
            max_depth: DEPTH,
            flow_nesting_limit: DEPTH,
            max_nodes: NODES,
            max_total_scalar_bytes: super::LIMIT,
        },
        merge_keys: MergeKeyPolicy::Error,
        duplicate_keys: DuplicateKeyPolicy::Error,
        reject_unsupported_tags: true,
        // With these options, `no` and `007` are strings.
        strict_booleans: true,
        leading_zero_numbers_as_strings: true,
        underscored_numbers_as_strings: true,
        with_snippet: false,
        // Comments are neither counted nor used.
        emit_comments: false,
    }
}

impl Node {
    /// Converts the value to JSON, without the positions.
    pub fn value(&self) -> Value {
        match self {
            Self::Scalar(value) => value.clone(),
            Self::List(list) => list.iter().map(|each| each.it.value()).collect(),
            Self::Map(fields) => Value::Object(fields.object()),
        }
    }
}

impl Fields {
    /// Converts the map to JSON, without the positions.
    pub fn object(&self) -> Map<String, Value> {
        let fields = self.0.iter();
        let fields = fields.map(|(name, value)| (name.it.0.clone(), value.it.value()));
        fields.collect()
    }

    /// The field with this name: its key and its value, each with its position.
    pub fn get(&self, name: &str) -> Option<&(Located<Name>, Located<Node>)> {
        self.0.iter().find(|(each, _)| each.it.0 == name)
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Located<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let read = Spanned::<Tagged<T>>::deserialize(deserializer)?;
        let Tagged(it, tag) = read.value;
        if tag.is_some() {
            return Err(D::Error::custom(Fault::Tag));
        }
        let position = read.referenced.into();
        Ok(Self { position, it })
    }
}

impl<'de> Deserialize<'de> for Name {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NameVisitor)
    }
}

struct NameVisitor;

impl Visitor<'_> for NameVisitor {
    type Value = Name;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a string")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<Name, E> {
        Ok(Name(name.to_owned()))
    }
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NodeVisitor)
    }
}

struct NodeVisitor;

impl<'de> Visitor<'de> for NodeVisitor {
    type Value = Node;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a value")
    }

    fn visit_unit<E: Error>(self) -> Result<Node, E> {
        Ok(Node::Scalar(Value::Null))
    }

    fn visit_bool<E: Error>(self, it: bool) -> Result<Node, E> {
        Ok(Node::Scalar(it.into()))
    }

    fn visit_u64<E: Error>(self, it: u64) -> Result<Node, E> {
        Ok(Node::Scalar(it.into()))
    }

    fn visit_i64<E: Error>(self, it: i64) -> Result<Node, E> {
        Ok(Node::Scalar(it.into()))
    }

    fn visit_f64<E: Error>(self, it: f64) -> Result<Node, E> {
        Ok(Node::Scalar(it.into()))
    }

    fn visit_str<E: Error>(self, it: &str) -> Result<Node, E> {
        Ok(Node::Scalar(it.into()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut from: A) -> Result<Node, A::Error> {
        let mut list = Vec::new();
        while let Some(each) = from.next_element()? {
            list.push(each);
        }
        Ok(Node::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut from: A) -> Result<Node, A::Error> {
        let mut fields = Vec::new();
        while let Some(field) = from.next_entry()? {
            fields.push(field);
        }
        Ok(Node::Map(Fields(fields)))
    }
}
