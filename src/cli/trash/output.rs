//! The list that `volume-warden trash` prints.

use crate::{
    columns::{age, aligned, span},
    objects::{
        deletion_order::listed_at,
        trash::OriginalPolicy,
        trash_entry::{Entry, Next},
        trash_list::{ListedVolume, State},
    },
    plain::{Plain, indented_json},
};
use clap::ValueEnum;
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

/// The format of the list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum Output {
    /// A table.
    #[default]
    Table,
    /// A table with more columns.
    Wide,
    /// One JSON object.
    Json,
}

const HEADER: [&str; 6] = [
    "NAMESPACE",
    "CLAIM",
    "SIZE",
    "DELETED",
    "PURGED AT",
    "VOLUME",
];
const WIDE_HEADER: [&str; 3] = ["STORAGECLASS", "WINDOW", "NAMESPACE UID"];
/// Text of a column whose value is unknown.
const UNKNOWN: &str = "unknown";

/// What is known about a volume in the trash. The uids and the policy are none in a row from the
/// ConfigMap of trash-list, which does not contain them.
pub(super) struct Row<'a> {
    namespace: &'a str,
    namespace_uid: Option<&'a str>,
    claim: &'a str,
    claim_uid: Option<&'a str>,
    volume: &'a str,
    class: &'a str,
    capacity: &'a str,
    policy: Option<OriginalPolicy>,
    window_seconds: u64,
    deleted_at: Option<Timestamp>,
    next: Next,
}

impl<'a> From<&Entry<'a>> for Row<'a> {
    fn from(entry: &Entry<'a>) -> Self {
        let (record, claim) = (entry.record, &entry.record.claim);
        Self {
            namespace: &claim.namespace,
            namespace_uid: claim.namespace_uid.as_deref(),
            claim: &claim.name,
            claim_uid: Some(&claim.uid),
            volume: &entry.name.name,
            class: &entry.volume.class,
            capacity: entry.capacity(),
            policy: Some(record.policy),
            window_seconds: record.window_seconds,
            deleted_at: record.deleted_at,
            next: entry.next,
        }
    }
}

impl<'a> Row<'a> {
    /// Creates a row from an entry of the ConfigMap of trash-list in this namespace.
    pub(super) fn listed(namespace: &'a str, volume: &'a ListedVolume) -> Self {
        Self {
            namespace,
            namespace_uid: None,
            claim: &volume.claim,
            claim_uid: None,
            volume: &volume.volume,
            class: &volume.storage_class,
            capacity: &volume.capacity,
            policy: None,
            window_seconds: volume.window_seconds,
            deleted_at: volume.deleted_at,
            next: volume.next(),
        }
    }
}

/// Formats the volumes in the trash, sorted by namespace, claim and recorded time of the deletion.
pub(super) fn shown(mut rows: Vec<Row<'_>>, output: Output, now: Timestamp) -> String {
    rows.sort_by_key(|row| {
        let deleted = listed_at(row.deleted_at);
        (row.namespace, row.claim, deleted, row.volume)
    });
    match output {
        Output::Json => {
            let volumes: Vec<_> = rows.iter().map(value).collect();
            indented_json(&json!({"volumes": volumes}))
        }
        Output::Table | Output::Wide => {
            let wide = output == Output::Wide;
            let extra = if wide { &WIDE_HEADER[..] } else { &[] };
            let header = HEADER.iter().chain(extra).map(|each| (*each).to_owned());
            let rows = rows.iter().map(|row| cells(row, wide, now));
            aligned(
                &[header.collect()]
                    .into_iter()
                    .chain(rows)
                    .collect::<Vec<_>>(),
            )
        }
    }
}

/// Sorts the volumes as [`shown`] does.
pub(super) fn sort(entries: &mut [Entry<'_>]) {
    entries.sort_by(|a, b| key(a).cmp(&key(b)));
}

fn key<'a>(entry: &Entry<'a>) -> (&'a str, &'a str, Timestamp, &'a str) {
    let (record, claim) = (entry.record, &entry.record.claim);
    (
        &claim.namespace,
        &claim.name,
        listed_at(record.deleted_at),
        &entry.name.name,
    )
}

fn cells(row: &Row<'_>, wide: bool, now: Timestamp) -> Vec<String> {
    let deleted = row.deleted_at.map(|deleted| age(deleted, now));
    let mut cells = vec![
        row.namespace.to_owned(),
        row.claim.to_owned(),
        row.capacity.to_owned(),
        deleted.unwrap_or_else(|| UNKNOWN.to_owned()),
        purged_at(row.next),
        row.volume.to_owned(),
    ];
    if wide {
        cells.push(row.class.to_owned());
        cells.push(span(row.window_seconds));
        cells.push(row.namespace_uid.unwrap_or(UNKNOWN).to_owned());
    }
    let cells = cells.into_iter().map(|cell| Plain(cell).to_string());
    cells.collect()
}

/// Returns the text of the column PURGED AT: when the data is deleted.
pub(super) fn purged_at(next: Next) -> String {
    match next {
        Next::Until(Some(end)) => end.to_string(),
        Next::Until(None) => UNKNOWN.to_owned(),
        Next::Requested => "requested".to_owned(),
        Next::Kept => "never".to_owned(),
        Next::Purging => "now".to_owned(),
    }
}

fn value(row: &Row<'_>) -> Value {
    json!({
        "namespace": row.namespace,
        "namespaceUid": row.namespace_uid,
        "claim": row.claim,
        "claimUid": row.claim_uid,
        "volume": row.volume,
        "storageClass": row.class,
        "capacity": row.capacity,
        "reclaimPolicy": row.policy,
        "windowSeconds": row.window_seconds,
        "deletedAt": row.deleted_at.map(|time| time.to_string()),
        "purgedAt": match row.next {
            Next::Until(Some(end)) => Some(end.to_string()),
            _ => None,
        },
        "state": State::from(row.next),
    })
}

#[cfg(test)]
#[path = "output_tests.rs"]
mod tests;
