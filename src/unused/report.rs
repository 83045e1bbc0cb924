//! The formats of the report.

use super::{
    Prices, Row, State,
    sum::{GIB, Sum},
};
use crate::{
    columns::{age, aligned, first},
    plain::{Plain, indented_json},
};
use clap::ValueEnum;
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Maximum number of references that a table names.
const REFERENCES: usize = 3;

/// The format of the report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// A table.
    #[default]
    Table,
    /// A table with more columns.
    Wide,
    /// One JSON object.
    Json,
    /// Comma-separated values, with the columns of `wide`.
    Csv,
}

/// Returns the list of unused storage as text in this format.
pub fn shown(rows: &[Row], output: Output, prices: &Prices, now: Timestamp) -> String {
    match output {
        Output::Json => indented_json(&value(rows, prices)),
        Output::Csv => csv(rows, prices),
        Output::Table | Output::Wide => table(rows, output == Output::Wide, prices, now),
    }
}

impl Row {
    /// The state in words. An unused claim that is being deleted is Terminating, as `kubectl` says.
    fn state(&self) -> &'static str {
        match (self.state, self.deleted) {
            (State::Unused, Some(_)) => "Terminating",
            (state, _) => state.name(),
        }
    }
}

fn table(rows: &[Row], wide: bool, prices: &Prices, now: Timestamp) -> String {
    let mut header = vec![
        "NAMESPACE",
        "CLAIM",
        "STATE",
        "SIZE",
        "UNUSED",
        "REFERENCED BY",
    ];
    if wide {
        header.splice(5..5, ["STORAGECLASS", "VOLUME", "COST/MONTH"]);
    }
    let mut lines = vec![header.into_iter().map(str::to_owned).collect()];
    lines.extend(rows.iter().map(|row| {
        let mut cells = vec![
            row.namespace.clone(),
            row.claim.clone(),
            row.state().to_owned(),
            row.capacity.clone(),
            row.since
                .map_or_else(|| "unknown".to_owned(), |since| age(since, now)),
            first(&row.referenced_by, REFERENCES),
        ];
        if wide {
            let cost = row.cost(prices).map(|cost| format!("{cost:.2}"));
            let extra = [
                row.class.clone(),
                row.volume.clone(),
                cost.unwrap_or_default(),
            ];
            cells.splice(5..5, extra);
        }
        let cells = cells.into_iter().map(|cell| {
            if cell.is_empty() {
                "-".to_owned()
            } else {
                Plain(cell).to_string()
            }
        });
        cells.collect()
    }));
    format!("{}\n\n{}", aligned(&lines), total(rows, prices))
}

/// The number, size and cost of all rows together, as one sentence.
fn total(rows: &[Row], prices: &Prices) -> String {
    let sum = Sum::of(rows, prices);
    let cost = match sum.cost {
        None => String::new(),
        Some(cost) if sum.priced == sum.count => format!(", {cost:.2} a month"),
        Some(cost) => {
            let priced = sum.priced;
            format!(", {cost:.2} a month for the {priced} whose class has a price")
        }
    };
    format!("{} in all, {:.1} GiB{cost}", sum.count, sum.bytes / GIB)
}

fn value(rows: &[Row], prices: &Prices) -> Value {
    let items = rows.iter().map(|row| {
        json!({
            "state": row.state(),
            "namespace": row.namespace,
            "claim": row.claim,
            "volume": row.volume,
            "storageClass": row.class,
            "capacity": row.capacity,
            "bytes": row.bytes(),
            "unusedSince": row.since.map(|since| since.to_string()),
            "referencedBy": row.referenced_by,
            "costPerMonth": row.cost(prices),
        })
    });
    let mut groups: BTreeMap<_, Sum> = BTreeMap::new();
    for row in rows {
        let group = groups.entry((&row.namespace, &row.class, row.state()));
        group.or_default().add(row, prices);
    }
    let totals = groups.into_iter().map(|((namespace, class, state), sum)| {
        json!({"namespace": namespace, "storageClass": class, "state": state,
            "count": sum.count, "bytes": sum.bytes, "costPerMonth": sum.cost})
    });
    json!({"items": items.collect::<Vec<_>>(), "totals": totals.collect::<Vec<_>>()})
}

fn csv(rows: &[Row], prices: &Prices) -> String {
    let header =
        "namespace,claim,state,capacity,unusedSince,storageClass,volume,costPerMonth,referencedBy";
    let lines = rows.iter().map(|row| {
        let cost = row.cost(prices).map(|cost| format!("{cost:.2}"));
        let cells = [
            row.namespace.clone(),
            row.claim.clone(),
            row.state().to_owned(),
            row.capacity.clone(),
            row.since.map(|since| since.to_string()).unwrap_or_default(),
            row.class.clone(),
            row.volume.clone(),
            cost.unwrap_or_default(),
            row.referenced_by.join("; "),
        ];
        cells.map(|cell| quoted(Plain(cell).to_string())).join(",")
    });
    let lines: Vec<_> = std::iter::once(header.to_owned()).chain(lines).collect();
    lines.join("\n")
}

/// A cell as RFC 4180 defines it.
fn quoted(cell: String) -> String {
    if cell.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", cell.replace('"', "\"\""))
    } else {
        cell
    }
}
