//! The lines of each group, with their next commands.

use super::{Subject, age::Age, command, stuck, text, trash::Records};
use crate::{
    columns::first,
    unused::{Row, State},
};
use k8s_openapi::jiff::Timestamp;
use std::collections::BTreeMap;

/// Maximum number of references that a line names.
const REFERENCES: usize = 3;

/// One line of a group: a claim or a volume, and the next command for it.
pub(super) struct Line {
    pub(super) subject: String,
    pub(super) class: String,
    pub(super) bytes: f64,
    pub(super) cost: Option<f64>,
    pub(super) since: Option<Timestamp>,
    pub(super) note: String,
    pub(super) next: Option<Next>,
}

/// The next command for a line.
pub(super) struct Next {
    pub(super) command: String,
    /// For how long the command can be undone, and the command that undoes it, if the command
    /// deletes a claim. None for any other command.
    pub(super) undo: Option<(String, String)>,
}

impl Line {
    fn new(subject: &Subject<'_>, row: &Row, title: String, next: Option<String>) -> Self {
        Self {
            subject: title,
            class: text::name(&row.class),
            bytes: row.bytes(),
            cost: subject.cost(row),
            since: row.since,
            note: "–".to_owned(),
            next: next.map(|command| Next {
                command,
                undo: None,
            }),
        }
    }
}

/// Namespace and name of the claim; a dash without one.
fn claim(row: &Row) -> String {
    if row.claim.is_empty() {
        text::name("")
    } else {
        format!("{}/{}", text::name(&row.namespace), text::name(&row.claim))
    }
}

/// The line of a claim that no pod uses.
pub(super) fn unused(subject: &Subject<'_>, row: &Row, records: &Records<'_>) -> Line {
    let why = command::why_claim(&row.namespace, &row.claim);
    let deletion = deletion(subject, row, records);
    let next = deletion.or_else(|| {
        Some(Next {
            command: why?,
            undo: None,
        })
    });
    let references = row.referenced_by.iter();
    let references: Vec<_> = references.map(|each| text::bounded(each, 300)).collect();
    let mut line = Line::new(subject, row, claim(row), None);
    if !references.is_empty() {
        line.note = first(&references, REFERENCES);
    }
    Line { next, ..line }
}

/// The command that deletes the claim, if users can undo the deletion and nothing is known to need
/// the claim: all kinds were listed, nothing refers to it, and it has been unused for a week. None
/// if it is being deleted already.
fn deletion(subject: &Subject<'_>, row: &Row, records: &Records<'_>) -> Option<Next> {
    let record = records
        .get(&row.volume)
        .filter(|record| record.can_be_undone())?;
    let recent = matches!(
        Age::of(row.since, subject.now),
        Age::UnderWeek | Age::Unknown
    );
    let complete = subject.listed.errors.is_empty();
    if recent || !complete || !row.referenced_by.is_empty() || row.deleted.is_some() {
        return None;
    }
    let undo = command::undelete(&row.namespace, &row.claim, None, None)?;
    Some(Next {
        command: command::delete(&row.namespace, &row.claim)?,
        undo: Some((record.window(), undo)),
    })
}

/// The lines of all claims and volumes that are stuck: their deletion failed or does not end.
pub(super) fn stuck(subject: &Subject<'_>, rows: &[Row]) -> Vec<Line> {
    let all = stuck::of(subject, rows);
    let lines = all.iter().map(|stuck| {
        let title = if stuck.is_volume {
            format!("volume {}", text::name(&stuck.row.volume))
        } else {
            format!("claim {}", claim(stuck.row))
        };
        Line {
            since: stuck.since,
            note: stuck.state().to_owned(),
            ..Line::new(subject, stuck.row, title, stuck.command())
        }
    });
    lines.collect()
}

/// The line of a volume that is Released or Available.
pub(super) fn of_volume(subject: &Subject<'_>, row: &Row) -> Line {
    let (title, next) = (text::name(&row.volume), command::why_volume(&row.volume));
    Line {
        note: claim(row),
        ..Line::new(subject, row, title, next)
    }
}

/// The lines of the deleted claims that can be restored.
pub(super) fn in_trash(subject: &Subject<'_>, rows: &[Row], records: &Records<'_>) -> Vec<Line> {
    let rows = || rows.iter().filter(|row| row.state == State::InTrash);
    let mut of_name: BTreeMap<_, usize> = BTreeMap::new();
    for row in rows() {
        *of_name.entry((&row.namespace, &row.claim)).or_default() += 1;
    }
    let lines = rows().map(|row| {
        let several = of_name.get(&(&row.namespace, &row.claim)) > Some(&1);
        let volume = several.then_some(&*row.volume);
        let record = records.get(&row.volume);
        let namespace = &*row.namespace;
        let to = record.map_or(Some(namespace), |record| record.destination(namespace));
        let next = command::undelete(&row.namespace, &row.claim, volume, to);
        Line {
            note: record.map_or_else(|| "unknown".to_owned(), |record| record.end()),
            ..Line::new(subject, row, claim(row), next)
        }
    });
    lines.collect()
}
