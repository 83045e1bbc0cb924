//! Parses the list of namespaces that StorageOS returns.

use crate::backend::{Failure, Listed, Listing, name::may_be_namespace};
use k8s_openapi::jiff::Timestamp;
use serde::Deserialize;
use serde_json::value::RawValue;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A namespace in the response. The schema of StorageOS allows every field to be missing.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct NamespaceWire {
    id: Option<String>,
    name: Option<String>,
    version: Option<String>,
    created_at: Option<serde_json::Value>,
}

/// Parses a list of namespaces. Invalid entries are counted and skipped.
///
/// # Errors
/// When the body is not a list.
pub(super) fn read(body: &[u8]) -> Result<Listing, Failure> {
    let entries: Vec<&RawValue> = serde_json::from_slice(body)
        .map_err(|_| Failure::server("the response of StorageOS is not a list of namespaces"))?;
    let mut listing = Listing::default();
    for entry in entries {
        match serde_json::from_str(entry.get()).ok().and_then(listed) {
            Some(namespace) => listing.namespaces.push(namespace),
            None => listing.skipped += 1,
        }
    }
    Ok(listing)
}

fn listed(wire: NamespaceWire) -> Option<Listed> {
    Some(Listed {
        id: wire.id.filter(|id| is_id(id))?,
        name: wire.name.filter(|name| may_be_namespace(name))?,
        version: wire.version.unwrap_or_default(),
        since: wire.created_at.as_ref().and_then(time),
    })
}

/// Returns whether `id` is safe as one segment of a URL path: "." and ".." would change the path.
pub(super) fn is_id(id: &str) -> bool {
    let plain = id.bytes().all(|byte| byte.is_ascii_graphic());
    (1..=256).contains(&id.len()) && plain && id != "." && id != ".."
}

fn time(value: &serde_json::Value) -> Option<SystemTime> {
    let time: Timestamp = value.as_str()?.parse().ok()?;
    let milliseconds = u64::try_from(time.as_millisecond()).ok()?;
    UNIX_EPOCH.checked_add(Duration::from_millis(milliseconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_is_read_with_its_age() {
        let body =
            br#"[{"id": "i", "name": "n", "version": "v", "createdAt": "1970-01-01T00:01:00Z",
            "labels": {}, "later": [1]}, {"id": "j", "name": "o", "createdAt": "yesterday"}]"#;
        let listing = read(body).expect("a list");
        let since = Some(UNIX_EPOCH + Duration::from_secs(60));
        let first = Listed {
            id: "i".into(),
            name: "n".into(),
            version: "v".into(),
            since,
        };
        let second = Listed {
            id: "j".into(),
            name: "o".into(),
            version: String::new(),
            since: None,
        };
        assert_eq!(listing.namespaces, [first, second]);
        assert_eq!(listing.skipped, 0);
    }

    #[test]
    fn ns_24_an_entry_that_may_be_anything_is_skipped_and_counted() {
        let junk = [
            "null",
            "1",
            "\"n\"",
            "{}",
            "[\"i\", \"n\"]",
            r#"{"name": "n"}"#,
            r#"{"id": "", "name": "n"}"#,
            r#"{"id": null, "name": "n"}"#,
            r#"{"id": 7, "name": "n"}"#,
            r#"{"id": ".", "name": "n"}"#,
            r#"{"id": "..", "name": "n"}"#,
            r#"{"id": "i\n", "name": "n"}"#,
            r#"{"id": "i", "id": "j", "name": "n"}"#,
            r#"{"id": "i"}"#,
            r#"{"id": "i", "name": ""}"#,
            r#"{"id": "i", "name": " "}"#,
            r#"{"id": "i", "name": "N"}"#,
            r#"{"id": "i", "name": ["n"]}"#,
        ];
        let good = r#"{"id": "i", "name": "good"}"#;
        let body = format!("[{}, {good}]", junk.join(","));
        let listing = read(body.as_bytes()).expect("a list");
        assert_eq!(listing.skipped, junk.len());
        let names: Vec<_> = listing.namespaces.iter().map(|each| &*each.name).collect();
        assert_eq!(names, ["good"]);
    }

    #[test]
    fn what_is_no_list_is_an_error_and_not_an_empty_list() {
        for body in [
            "",
            "null",
            "{}",
            "\"\"",
            "<html>",
            "[{\"id\": \"i\"",
            "[] []",
            "{\"items\": []}",
        ] {
            let failure = read(body.as_bytes()).expect_err(body);
            assert_eq!(failure.outcome().name(), "Server", "{body}");
        }
        assert_eq!(read(b" [] ").expect("a list"), Listing::default());
    }
}
