//! Helpers that read API objects.

use serde_json::Value;

/// Returns the value at this path of keys, each after a `/`. Unlike [`Value::pointer`], this
/// function neither supports escapes nor allocates: `pointer` took a tenth of the run time.
pub fn at<'a>(object: &'a Value, path: &str) -> Option<&'a Value> {
    path.split('/')
        .skip(1)
        .try_fold(object, |value, key| value.get(key))
}

/// Returns the text at this path, or an empty text.
pub fn text<'a>(object: &'a Value, path: &str) -> &'a str {
    at(object, path).and_then(Value::as_str).unwrap_or_default()
}

/// Returns the list at this path, or an empty one.
pub fn list<'a>(object: &'a Value, path: &str) -> &'a [Value] {
    at(object, path)
        .and_then(Value::as_array)
        .map_or(&[], Vec::as_slice)
}

/// Returns `metadata.name`, or an empty text.
pub fn name(object: &Value) -> &str {
    text(object, "/metadata/name")
}

/// Returns the namespace of the object; empty for cluster-scoped objects.
pub fn namespace(object: &Value) -> &str {
    text(object, "/metadata/namespace")
}

/// Returns `metadata.uid`, or an empty text.
pub fn uid(object: &Value) -> &str {
    text(object, "/metadata/uid")
}

/// Returns whether the object is being deleted.
pub fn is_deleting(object: &Value) -> bool {
    at(object, "/metadata/deletionTimestamp").is_some()
}

/// Returns whether the object has this finalizer.
pub fn has_finalizer(object: &Value, finalizer: &str) -> bool {
    list(object, "/metadata/finalizers")
        .iter()
        .any(|each| each == finalizer)
}

/// Returns the owner references of the object.
pub fn owners(object: &Value) -> &[Value] {
    list(object, "/metadata/ownerReferences")
}

/// Returns whether the object has an owner reference with the uid of this owner.
pub fn is_owned_by(object: &Value, owner: &Value) -> bool {
    let mut owners = owners(object).iter();
    owners.any(|each| text(each, "/uid") == uid(owner))
}

/// Returns whether the retention policy of a StatefulSet is Delete for `whenDeleted` or
/// `whenScaled`.
pub fn deletes_claims(set: &Value, when: &str) -> bool {
    let path = format!("/spec/persistentVolumeClaimRetentionPolicy/{when}");
    text(set, &path) == "Delete"
}

/// Returns whether an owner reference names an object of this kind and name, with any uid.
pub fn is_owner_named(owner: &Value, kind: &str, name: &str) -> bool {
    text(owner, "/kind") == kind && text(owner, "/name") == name
}

/// Returns the names of the claims that the pod uses.
pub fn claims_of(pod: &Value) -> impl Iterator<Item = &str> {
    let volumes = list(pod, "/spec/volumes").iter();
    volumes
        .map(|volume| text(volume, "/persistentVolumeClaim/claimName"))
        .filter(|name| !name.is_empty())
}

/// Returns whether the pod has Succeeded or Failed.
pub fn is_finished(pod: &Value) -> bool {
    matches!(text(pod, "/status/phase"), "Succeeded" | "Failed")
}

/// Returns the numbers of a StatefulSet's ordinals that have a pod by its spec.
pub fn ordinals(set: &Value) -> std::ops::Range<u64> {
    let number = |path| at(set, path).and_then(Value::as_u64);
    let start = number("/spec/ordinals/start").unwrap_or(0);
    start..start + number("/spec/replicas").unwrap_or(1)
}
