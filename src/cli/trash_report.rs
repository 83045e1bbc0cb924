//! The list that `volume-warden trash` prints.

use crate::{
    columns::{age, aligned, span},
    components::pvc_trash::{Entry, Next},
    objects::trash::OriginalPolicy,
    plain::Plain,
};
use clap::ValueEnum;
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};
use std::time::Duration;

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

/// Formats the volumes in the trash.
pub(super) fn shown(entries: &[Entry<'_>], output: Output, now: Timestamp) -> String {
    match output {
        Output::Json => format!(
            "{:#}",
            json!({"volumes": entries.iter().map(value).collect::<Vec<_>>()})
        ),
        Output::Table | Output::Wide => {
            let wide = output == Output::Wide;
            let extra = if wide { &WIDE_HEADER[..] } else { &[] };
            let header = HEADER.iter().chain(extra).map(|each| (*each).to_owned());
            let rows = entries.iter().map(|entry| row(entry, wide, now));
            aligned(
                &[header.collect()]
                    .into_iter()
                    .chain(rows)
                    .collect::<Vec<_>>(),
            )
        }
    }
}

/// Sorts the volumes by namespace and claim; the claim that was deleted last is the last one of its
/// name.
pub(super) fn sort(entries: &mut [Entry<'_>]) {
    entries.sort_by(|a, b| key(a).cmp(&key(b)));
}

fn key<'a>(entry: &Entry<'a>) -> (&'a str, &'a str, Option<Timestamp>, &'a str) {
    let (record, claim) = (entry.record, &entry.record.claim);
    (
        &claim.namespace,
        &claim.name,
        record.deleted_at,
        &entry.name.name,
    )
}

fn row(entry: &Entry<'_>, wide: bool, now: Timestamp) -> Vec<String> {
    let (record, claim) = (entry.record, &entry.record.claim);
    let mut cells = vec![
        claim.namespace.clone(),
        claim.name.clone(),
        entry.capacity().to_owned(),
        record
            .deleted_at
            .map_or_else(|| UNKNOWN.to_owned(), |deleted| age(deleted, now)),
        purged_at(entry.next),
        entry.name.name.to_string(),
    ];
    if wide {
        let window = Duration::from_secs(record.window_seconds);
        cells.push(entry.volume.class.to_string());
        cells.push(span(window.as_secs()));
        cells.push(
            claim
                .namespace_uid
                .clone()
                .unwrap_or_else(|| UNKNOWN.into()),
        );
    }
    let cells = cells.into_iter().map(|cell| Plain(cell).to_string());
    cells.collect()
}

/// Describes when the data is deleted, in the words of the table.
pub(super) fn purged_at(next: Next) -> String {
    match next {
        Next::Until(Some(end)) => end.to_string(),
        Next::Until(None) => UNKNOWN.to_owned(),
        Next::Requested => "requested".to_owned(),
        Next::Kept => "never".to_owned(),
        Next::Purging => "now".to_owned(),
    }
}

fn value(entry: &Entry<'_>) -> Value {
    let (record, claim) = (entry.record, &entry.record.claim);
    json!({
        "namespace": claim.namespace,
        "namespaceUid": claim.namespace_uid,
        "claim": claim.name,
        "claimUid": claim.uid,
        "volume": &*entry.name.name,
        "storageClass": &*entry.volume.class,
        "capacity": entry.capacity(),
        "reclaimPolicy": match record.policy {
            OriginalPolicy::Delete => "Delete",
            OriginalPolicy::Retain => "Retain",
        },
        "windowSeconds": record.window_seconds,
        "deletedAt": record.deleted_at.map(|time| time.to_string()),
        "purgedAt": match entry.next {
            Next::Until(Some(end)) => Some(end.to_string()),
            _ => None,
        },
        "state": match entry.next {
            Next::Until(_) => "InTrash",
            Next::Requested => "PurgeRequested",
            Next::Kept => "Kept",
            Next::Purging => "Purging",
        },
    })
}

#[cfg(test)]
#[path = "trash_report_tests.rs"]
mod tests;
