//! Finds in `managedFields` who owns one field of an object.
//!
//! Source: `staging/src/k8s.io/apimachinery/pkg/apis/meta/v1/types.go` (`ManagedFieldsEntry`,
//! `FieldsV1`) of Kubernetes.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;
use serde::{
    Deserialize, Deserializer,
    de::{DeserializeSeed, IgnoredAny, MapAccess, SeqAccess, Visitor},
};
use std::{borrow::Cow, fmt};

/// The field manager of the entries that Volume Warden applies.
pub const FIELD_MANAGER: &str = "volume-warden";

/// Returns whether JSON has a path of keys, without storing the JSON: `managedFields` are often
/// half of an object.
struct Contains<'a>(&'a [&'a str]);

impl<'de> DeserializeSeed<'de> for Contains<'_> {
    type Value = bool;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<bool, D::Error> {
        match self.0 {
            [] => IgnoredAny::deserialize(deserializer).map(|_| true),
            _ => deserializer.deserialize_any(self),
        }
    }
}

impl<'de> Visitor<'de> for Contains<'_> {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<bool, A::Error> {
        let mut found = false;
        while let Some(key) = map.next_key::<Cow<'_, str>>()? {
            match self.0 {
                [first, rest @ ..] if *first == key => {
                    found |= map.next_value_seed(Contains(rest))?;
                }
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(found)
    }

    // The API server stores any JSON in `fieldsV1`, so a value of another type is no error.
    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<bool, A::Error> {
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(false)
    }

    fn visit_bool<E>(self, _: bool) -> Result<bool, E> {
        Ok(false)
    }

    fn visit_i64<E>(self, _: i64) -> Result<bool, E> {
        Ok(false)
    }

    fn visit_u64<E>(self, _: u64) -> Result<bool, E> {
        Ok(false)
    }

    fn visit_f64<E>(self, _: f64) -> Result<bool, E> {
        Ok(false)
    }

    fn visit_str<E>(self, _: &str) -> Result<bool, E> {
        Ok(false)
    }

    fn visit_unit<E>(self) -> Result<bool, E> {
        Ok(false)
    }
}

/// Whether a set of fields contains the status of a claim's condition `Unused`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct UnusedStatus(bool);

const UNUSED_STATUS: [&str; 4] = [
    "f:status",
    "f:conditions",
    r#"k:{"type":"Unused"}"#,
    "f:status",
];

impl<'de> Deserialize<'de> for UnusedStatus {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Contains(&UNUSED_STATUS).deserialize(deserializer).map(Self)
    }
}

/// One entry of `managedFields`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Entry {
    manager: Option<String>,
    fields_v1: UnusedStatus,
}

/// The `managedFields` of a claim: of each entry, the manager, and whether it owns the status of
/// the condition `Unused`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(transparent)]
pub struct UnusedOwners(Option<Vec<Entry>>);

impl From<UnusedOwners> for Vec<ManagedFieldsEntry> {
    fn from(owners: UnusedOwners) -> Self {
        let entries = owners.0.into_iter().flatten();
        let owners = entries.filter(|entry| entry.fields_v1.0);
        owners
            .map(|entry| ManagedFieldsEntry {
                manager: entry.manager,
                ..ManagedFieldsEntry::default()
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn entry(manager: &str, fields: &Value) -> Value {
        json!({"manager": manager, "operation": "Update", "apiVersion": "v1", "time": "2026-01-01T00:00:00Z",
            "fieldsType": "FieldsV1", "fieldsV1": fields, "subresource": "status"})
    }

    fn owners(entries: &Value) -> Vec<String> {
        // The JSON is read from bytes, as from the network: keys with escaped characters cannot be
        // borrowed.
        let owners: UnusedOwners = serde_json::from_str(&entries.to_string()).expect("entries");
        let owners = Vec::<ManagedFieldsEntry>::from(owners).into_iter();
        owners.filter_map(|owner| owner.manager).collect()
    }

    fn condition(kind: &str, field: &str) -> Value {
        let key = format!(r#"k:{{"type":"{kind}"}}"#);
        json!({"f:status": {"f:phase": {}, "f:conditions": {".": {}, key: {".": {}, field: {}}}}})
    }

    #[test]
    fn only_managers_that_own_the_status_of_the_condition_are_kept() {
        let unused = condition("Unused", "f:status");
        let other = condition("Resizing", "f:status");
        let reason = condition("Unused", "f:reason");
        for (entries, expected) in [
            (json!([entry("a", &unused), entry("b", &other)]), vec!["a"]),
            (json!([entry("a", &reason), entry("b", &unused)]), vec!["b"]),
            (
                json!([entry("a", &unused), entry("b", &unused)]),
                vec!["a", "b"],
            ),
            (json!([entry("a", &other)]), vec![]),
            (json!([]), vec![]),
            (Value::Null, vec![]),
        ] {
            assert_eq!(owners(&entries), expected, "{entries}");
        }
    }

    #[test]
    fn any_json_is_accepted_as_a_set_of_fields() {
        for fields in [
            json!(null),
            json!(true),
            json!(-1),
            json!(1),
            json!(1.5),
            json!("f:status"),
            json!(["f:status"]),
            json!({"f:status": [1]}),
            json!({"f:status": {"f:conditions": null}}),
        ] {
            assert!(owners(&json!([entry("a", &fields)])).is_empty(), "{fields}");
        }
    }
}
