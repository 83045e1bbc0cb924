//! Parses the `metadata` of objects, without the fields that no rule reads.

use super::field_owner::UnusedOwners;
use k8s_openapi::{
    apimachinery::pkg::apis::meta::v1::{OwnerReference, Time},
    jiff::Timestamp,
};
use kube::api::ObjectMeta;
use serde::{
    Deserialize, Deserializer,
    de::{Error as _, IgnoredAny},
};
use std::{borrow::Cow, collections::BTreeMap};

/// Maximum length, in bytes, of the value of a claim's annotation about the trash or expiry, and of
/// a text of an owner reference. A longer annotation is read as an empty text, because it is no
/// name, duration or time.
pub const MAX_TEXT: usize = 253;

/// Returns the value of an annotation, or an empty text if it is longer than [`MAX_TEXT`].
pub(super) fn bounded(annotations: &BTreeMap<String, String>, key: &str) -> Option<Box<str>> {
    let value = annotations.get(key)?.as_str();
    Some(if value.len() > MAX_TEXT { "" } else { value }.into())
}

/// Parses owner references, each as [`bounded_owner`] keeps it.
fn bounded_owners<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Vec<OwnerReference>>, D::Error> {
    let owners = Option::<Vec<OwnerReference>>::deserialize(deserializer)?;
    Ok(owners.map(|owners| owners.into_iter().map(bounded_owner).collect()))
}

/// Shortens each text of an owner reference to [`MAX_TEXT`] bytes. No object has a longer name or
/// uid, but the API server accepts references of more than a megabyte, and Events and warnings name
/// owners. Volume Warden removes references by their index, and never writes one again that it
/// read.
pub(super) fn bounded_owner(mut owner: OwnerReference) -> OwnerReference {
    let OwnerReference {
        api_version,
        kind,
        name,
        uid,
        ..
    } = &mut owner;
    for text in [api_version, kind, name, uid] {
        if text.len() > MAX_TEXT {
            *text = text[..text.floor_char_boundary(MAX_TEXT)].to_owned();
        }
    }
    owner
}

/// Parses a `metadata` field, for `#[serde(deserialize_with)]`. `managedFields`, often half of an
/// object, are skipped while parsing, so that they use no memory.
pub fn trimmed<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ObjectMeta, D::Error> {
    Trimmed::<IgnoredAny>::deserialize(deserializer).map(ObjectMeta::from)
}

/// Parses a `metadata` field as [`trimmed`] does, and keeps of `managedFields` the names of the
/// managers that own the status of a claim's condition `Unused`.
pub fn with_unused_owners<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<ObjectMeta, D::Error> {
    let mut read = Trimmed::<UnusedOwners>::deserialize(deserializer)?;
    let owners: Vec<_> = std::mem::take(&mut read.managed_fields).into();
    Ok(ObjectMeta {
        managed_fields: Some(owners).filter(|owners| !owners.is_empty()),
        ..read.into()
    })
}

/// The earliest or latest possible time if the text is a time in UTC that cannot be represented;
/// none for any other text. Kubernetes accepts such a time, as the last day of the year 9999, and
/// with an offset also one in the year 10000 or before the year 0, and answers it in UTC.
pub fn nearest_time(text: &str) -> Option<Timestamp> {
    let (date, _) = text.strip_suffix('Z')?.split_once('T')?;
    let (nearest, date) = match date.strip_prefix('-') {
        Some(date) => (Timestamp::MIN, date),
        None => (Timestamp::MAX, date),
    };
    let mut digits = date.split('-').map(|part| {
        let is_number = part.bytes().all(|byte| byte.is_ascii_digit());
        if is_number { part.len() } else { 0 }
    });
    let parts = (digits.next(), digits.next(), digits.next(), digits.next());
    let is_date = matches!(parts, (Some(4..), Some(2), Some(2), None));
    (is_date && text.parse::<Timestamp>().is_err()).then_some(nearest)
}

/// Parses a time. One that cannot be represented is read as the [`nearest_time`]: a user can write
/// it at a creation by server-side apply, and the review must not fail.
fn clamped_time<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Time>, D::Error> {
    let text = Option::<Cow<'de, str>>::deserialize(deserializer)?;
    let time = text.map(|text| match nearest_time(&text) {
        Some(nearest) => Ok(nearest),
        None => text.parse().map_err(D::Error::custom),
    });
    Ok(time.transpose()?.map(Time))
}

/// Reads a time. None if it cannot be represented, such as the last day of the year 9999, which
/// Kubernetes accepts: one object must not fail the LIST of all.
pub(super) fn readable_time<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Time>, D::Error> {
    let text = Option::<String>::deserialize(deserializer)?;
    Ok(text.and_then(|text| text.parse().ok()).map(Time))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Trimmed<ManagedFields: Default> {
    name: Option<String>,
    generate_name: Option<String>,
    namespace: Option<String>,
    uid: Option<String>,
    resource_version: Option<String>,
    #[serde(default, deserialize_with = "clamped_time")]
    creation_timestamp: Option<Time>,
    #[serde(default, deserialize_with = "clamped_time")]
    deletion_timestamp: Option<Time>,
    deletion_grace_period_seconds: Option<i64>,
    finalizers: Option<Vec<String>>,
    #[serde(default, deserialize_with = "bounded_owners")]
    owner_references: Option<Vec<OwnerReference>>,
    annotations: Option<BTreeMap<String, String>>,
    labels: Option<BTreeMap<String, String>>,
    #[serde(default)]
    managed_fields: ManagedFields,
}

impl<ManagedFields: Default> From<Trimmed<ManagedFields>> for ObjectMeta {
    fn from(read: Trimmed<ManagedFields>) -> Self {
        Self {
            name: read.name,
            generate_name: read.generate_name,
            namespace: read.namespace,
            uid: read.uid,
            resource_version: read.resource_version,
            creation_timestamp: read.creation_timestamp,
            deletion_timestamp: read.deletion_timestamp,
            deletion_grace_period_seconds: read.deletion_grace_period_seconds,
            finalizers: read.finalizers,
            owner_references: read.owner_references,
            annotations: read.annotations,
            labels: read.labels,
            ..Self::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// The API server limits neither the names nor the uids of owner references.
    #[test]
    fn the_texts_of_owners_are_bounded() {
        #[derive(Deserialize)]
        struct Wire {
            #[serde(deserialize_with = "trimmed")]
            metadata: ObjectMeta,
        }
        let long = "ä".repeat(1_000_000);
        let owner = json!({"apiVersion": long, "kind": long, "name": long, "uid": long, "controller": true});
        let object = json!({"metadata": {"ownerReferences": [owner]}});
        let wire: Wire = serde_json::from_value(object).expect("an object");
        let owner = wire.metadata.owner_references.unwrap_or_default().remove(0);
        assert_eq!(owner.controller, Some(true));
        for text in [owner.api_version, owner.kind, owner.name, owner.uid] {
            assert_eq!(text, "ä".repeat(MAX_TEXT / 2));
        }
    }

    /// A creation by server-side apply is reviewed with the time that the user wrote. If the review
    /// failed, the claim would be stored without it.
    #[test]
    fn a_time_that_cannot_be_represented_fails_no_review() {
        for (text, nearest) in [
            ("9999-12-31T23:59:59Z", Timestamp::MAX),
            ("10000-01-01T00:59:59Z", Timestamp::MAX),
            ("-0001-12-31T23:00:00Z", Timestamp::MIN),
        ] {
            let metadata =
                json!({"name": "data", "creationTimestamp": text, "deletionTimestamp": text});
            let read = trimmed(metadata).expect(text);
            assert_eq!(read.creation_timestamp, Some(Time(nearest)));
            assert_eq!(read.deletion_timestamp, Some(Time(nearest)));
        }
        let absent = trimmed(json!({"creationTimestamp": null})).expect("metadata");
        assert_eq!(
            (absent.creation_timestamp, absent.deletion_timestamp),
            (None, None)
        );
        assert!(trimmed(json!({"creationTimestamp": "soon"})).is_err());
    }
}
