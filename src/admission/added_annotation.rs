//! Removes an annotation that only Volume Warden may write.

use super::{
    answer::{Answer, Reviewed},
    request::Request,
};
use crate::objects::patch::remove;
use kube::{Resource, ResourceExt as _};
use serde::de::DeserializeOwned;

/// Allows the request, and removes the annotation `key` if the request adds it to the object or
/// changes it, or if it did not count in the object before, according to `counted`.
///
/// # Errors
/// When the object, or the one that the request changes, cannot be parsed.
pub fn without_added_annotation<T>(
    request: &Request,
    key: &str,
    counted: impl Fn(&T) -> bool,
) -> Reviewed
where
    T: Resource + DeserializeOwned,
{
    let object = request.object::<T>()?;
    let before = request.object_before::<T>()?;
    let before = before
        .as_ref()
        .filter(|before| counted(before))
        .and_then(|before| before.annotations().get(key));
    let stated = object.annotations().get(key);
    if stated.is_none() || stated == before {
        return Ok(Answer::Allow);
    }
    Ok(Answer::Patch {
        operations: vec![remove(&["annotations", key])],
        what: format!("remove the annotation {key}"),
        warnings: Vec::new(),
    })
}
