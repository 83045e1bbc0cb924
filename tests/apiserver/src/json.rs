//! Objects as JSON.

use crate::status::{Answer, Failure};
use bytes::Bytes;
use serde_json::{Value, json};

/// The object without anything but its metadata.
pub(crate) fn metadata_of(object: &Value) -> Value {
    json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": object["metadata"]})
}

/// The JSON of a value. `Value::to_string` takes longer.
pub(crate) fn json_of(value: &Value) -> Bytes {
    // A `Value` has only texts as keys, so this cannot fail.
    serde_json::to_vec(value).unwrap_or_default().into()
}

pub(crate) fn parse(body: &[u8]) -> Answer<Value> {
    let parsed = serde_json::from_slice(body);
    parsed.map_err(|error| {
        Failure::bad_request(format!("the object provided is unrecognized: {error}"))
    })
}
