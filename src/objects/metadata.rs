//! Parses the `metadata` of objects, without the fields that no rule reads.

use super::field_owner::UnusedOwners;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{OwnerReference, Time};
use kube::api::ObjectMeta;
use serde::{Deserialize, Deserializer, de::IgnoredAny};
use std::collections::BTreeMap;

/// Maximum length, in bytes, of the value of a claim's annotation about the trash or expiry. A
/// longer one is read as an empty text, because it is no name, duration or time.
pub const MAX_TEXT: usize = 253;

/// Returns the value of an annotation, or an empty text if it is longer than [`MAX_TEXT`].
pub(super) fn bounded(annotations: &BTreeMap<String, String>, key: &str) -> Option<Box<str>> {
    let value = annotations.get(key)?.as_str();
    Some(if value.len() > MAX_TEXT { "" } else { value }.into())
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
    creation_timestamp: Option<Time>,
    deletion_timestamp: Option<Time>,
    deletion_grace_period_seconds: Option<i64>,
    finalizers: Option<Vec<String>>,
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
