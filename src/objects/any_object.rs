//! Objects of kinds that are known only at run time, such as custom resources.

use super::metadata;
use kube::{
    Resource,
    api::{ApiResource, ObjectMeta},
    core::DynamicResourceScope,
};
use serde::{Deserialize, Deserializer, de::Error as _};
use serde_json::Value;
use std::borrow::Cow;

/// An object of any kind.
#[derive(Clone, Debug)]
pub struct AnyObject {
    /// The object's standard metadata.
    pub metadata: ObjectMeta,
    /// The object as the API server returned it, with its metadata.
    pub whole: Value,
}

impl<'de> Deserialize<'de> for AnyObject {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let whole = Value::deserialize(deserializer)?;
        let metadata = metadata::trimmed(&whole["metadata"]).map_err(D::Error::custom)?;
        Ok(Self { metadata, whole })
    }
}

impl Resource for AnyObject {
    type DynamicType = ApiResource;
    type Scope = DynamicResourceScope;

    fn kind(of: &ApiResource) -> Cow<'_, str> {
        of.kind.as_str().into()
    }

    fn group(of: &ApiResource) -> Cow<'_, str> {
        of.group.as_str().into()
    }

    fn version(of: &ApiResource) -> Cow<'_, str> {
        of.version.as_str().into()
    }

    fn plural(of: &ApiResource) -> Cow<'_, str> {
        of.plural.as_str().into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}
