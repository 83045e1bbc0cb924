//! The report of `volume-warden gc`.

use crate::{
    components::namespace_gc::{Removal, Report, Row, Verdict},
    plain::{Plain, indented_json},
};
use clap::ValueEnum;
use serde_json::{Value, json};

/// The format of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Output {
    /// A table of the namespaces that Kubernetes does not have.
    Table,
    /// All namespaces, as JSON.
    Json,
}

pub(super) fn shown(report: &Report, output: Output, dry_run: bool) -> String {
    match output {
        Output::Table => table(report, dry_run),
        Output::Json => indented_json(&value(report, dry_run)),
    }
}

fn value(report: &Report, dry_run: bool) -> Value {
    let row = |row: &Row| {
        json!({
            "name": row.name,
            "verdict": row.verdict.name(),
            "outcome": row.removal.as_ref().map(Removal::name),
            "why": why(row),
        })
    };
    json!({
        "dryRun": dry_run,
        "namespaces": report.rows.iter().map(row).collect::<Vec<_>>(),
        "skippedEntries": report.skipped,
        "deleted": report.deleted(),
        "notEmpty": report.count(Row::is_not_empty),
        "failed": report.failed(),
    })
}

/// Formats a table of the namespaces. Those that exist in Kubernetes are only counted.
fn table(report: &Report, dry_run: bool) -> String {
    let shown = report.rows.iter();
    let shown = shown.filter(|row| row.verdict != Verdict::InKubernetes);
    let header = ["NAMESPACE", "VERDICT", "OUTCOME", "WHY"].map(str::to_owned);
    let rows = shown.map(|row| {
        let outcome = row.removal.as_ref().map_or("Kept", Removal::name);
        [
            Plain(&row.name).to_string(),
            row.verdict.name().into(),
            outcome.into(),
            Plain(why(row)).to_string(),
        ]
    });
    let rows: Vec<_> = std::iter::once(header).chain(rows).collect();
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
    let widths = [0, 1, 2].map(|column| width(column).unwrap_or_default());
    let line = |[name, verdict, outcome, why]: &[String; 4]| {
        let [first, second, third] = widths;
        format!("{name:first$}  {verdict:second$}  {outcome:third$}  {why}\n")
    };
    let lines = if rows.len() > 1 {
        rows.iter().map(line).collect()
    } else {
        String::new()
    };
    lines + &summary(report, dry_run)
}

fn summary(report: &Report, dry_run: bool) -> String {
    let has = |verdict| report.count(|row| row.verdict == verdict);
    let withheld = report.count(|row| row.removal == Some(Removal::Withheld));
    let done = if dry_run {
        format!("{withheld} would be deleted")
    } else {
        let full = report.count(Row::is_not_empty);
        format!(
            "{} deleted, {full} not empty, {} failed",
            report.deleted(),
            report.failed()
        )
    };
    format!(
        "{} namespaces, {} of them in Kubernetes; {done}; {} beyond --gc-max-deletions; {} entries that are not namespaces",
        report.rows.len(),
        has(Verdict::InKubernetes),
        has(Verdict::OverTheCap),
        report.skipped
    )
}

fn why(row: &Row) -> String {
    match (&row.removal, row.verdict) {
        (Some(Removal::Waits(_, why)), _) => why.to_string(),
        (Some(Removal::Kept), _) => {
            "the namespace was created in Kubernetes during the collection".into()
        }
        (_, Verdict::Orphan) => "Kubernetes has no namespace of that name".into(),
        (_, Verdict::InKubernetes) => "Kubernetes has a namespace of that name".into(),
        (_, Verdict::Protected) => "the name is protected by --gc-protect".into(),
        (_, Verdict::NotSeen) => {
            "this cluster is not known to have had a namespace of that name (--gc-scope=seen)"
                .into()
        }
        (_, Verdict::TooYoung) => "the namespace was created or changed within --gc-grace".into(),
        (_, Verdict::Waiting) => {
            "the deletion of this namespace failed before and is retried separately".into()
        }
        (_, Verdict::OverTheCap) => {
            "--gc-max-deletions is reached; raise it to include this namespace".into()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{backend::Sentence, components::namespace_gc::Reason};

    fn report() -> Report {
        let row = |name: &str, verdict, removal| Row {
            name: name.into(),
            verdict,
            removal,
        };
        let full = Removal::Waits(Reason::NotEmpty, Sentence::new("2 volumes"));
        Report {
            rows: vec![
                row("alive", Verdict::InKubernetes, None),
                row("default", Verdict::Protected, None),
                row("full", Verdict::Orphan, Some(full)),
                row("gone", Verdict::Orphan, Some(Removal::Deleted)),
            ],
            skipped: 1,
        }
    }

    #[test]
    fn the_table_omits_namespaces_in_kubernetes() {
        let expected = "\
NAMESPACE  VERDICT    OUTCOME   WHY
default    Protected  Kept      the name is protected by --gc-protect
full       Orphan     NotEmpty  2 volumes
gone       Orphan     Deleted   Kubernetes has no namespace of that name
4 namespaces, 1 of them in Kubernetes; 1 deleted, 1 not empty, 0 failed; 0 beyond --gc-max-deletions; 1 entries that are not namespaces";
        assert_eq!(shown(&report(), Output::Table, false), expected);
        let none = shown(&Report::default(), Output::Table, true);
        assert!(
            none.starts_with("0 namespaces") && none.contains("0 would be deleted"),
            "{none}"
        );
    }

    #[test]
    fn json_contains_every_namespace() {
        let text = shown(&report(), Output::Json, false);
        let value: Value = serde_json::from_str(&text).expect("JSON");
        let first = json!({"name": "alive", "verdict": "InKubernetes", "outcome": null, "why": "Kubernetes has a namespace of that name"});
        assert_eq!(value["namespaces"][0], first);
        assert_eq!(value["namespaces"][2]["outcome"], "NotEmpty");
        let counts =
            ["deleted", "notEmpty", "failed", "skippedEntries"].map(|key| value[key].as_u64());
        assert_eq!(counts, [Some(1), Some(1), Some(0), Some(1)]);
        assert_eq!(value["dryRun"], false);
    }
}
