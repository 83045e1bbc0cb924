//! How fast the claims of StatefulSets go when the sets are scaled to 0 under `whenScaled: Delete`, and what that costs the API
//! server, beside Kubernetes' own controller.
//!
//! N sets of M replicas with a claim each, in one namespace. kube-controller-manager and Volume Warden are stopped (SIGSTOP), all sets
//! are scaled to 0, both are resumed, and the time until the last claim is gone is taken. The pods are deleted by
//! kube-controller-manager in every column, so Volume Warden is measured beside it once as it comes and once with the limit of its
//! clients lifted.
//!
//! `cargo bench --bench retention`, or with other sizes and only some columns:
//! `cargo bench --bench retention -- 10x5 volume-warden-unlimited in-tree-unlimited` (sets, and replicas of each).

mod calls;
mod column;
mod load;

use anyhow::{Context, Result};
use column::{Column, Outcome};

/// A run: so many sets of so many replicas.
#[derive(Clone, Copy)]
struct Size {
    sets: usize,
    replicas: usize,
}

impl Size {
    fn claims(self) -> usize {
        self.sets * self.replicas
    }
}

const DEFAULT: Size = Size {
    sets: 200,
    replicas: 5,
};

/// The first two once more in the end, against a machine whose speed drifts.
const COLUMNS: [Column; 6] = [
    Column::OursUnlimited,
    Column::InTreeUnlimited,
    Column::OursDefault,
    Column::InTreeDefault,
    Column::InTreeUnlimited,
    Column::OursUnlimited,
];

#[tokio::main]
async fn main() -> Result<()> {
    // Cargo adds flags of its own.
    let arguments = std::env::args()
        .skip(1)
        .filter(|argument| !argument.starts_with('-'));
    let (sizes, columns): (Vec<_>, Vec<_>) =
        arguments.partition(|argument| argument.starts_with(|first: char| first.is_ascii_digit()));
    let mut sizes = sizes
        .iter()
        .map(|size| parse(size))
        .collect::<Result<Vec<_>>>()?;
    if sizes.is_empty() {
        sizes.push(DEFAULT);
    }
    let wanted =
        |column: &Column| columns.is_empty() || columns.iter().any(|name| name == column.name());
    for size in sizes {
        let outcomes = run(size, COLUMNS.into_iter().filter(wanted)).await?;
        print(size, &outcomes);
    }
    Ok(())
}

/// `200x5`.
fn parse(size: &str) -> Result<Size> {
    let wrong = || format!("{size} is not SETSxREPLICAS");
    let (sets, replicas) = size.split_once('x').with_context(wrong)?;
    Ok(Size {
        sets: sets.parse().with_context(wrong)?,
        replicas: replicas.parse().with_context(wrong)?,
    })
}

/// One column after another, each on a fresh control plane.
async fn run(size: Size, columns: impl Iterator<Item = Column>) -> Result<Vec<(Column, Outcome)>> {
    let mut outcomes = Vec::new();
    for column in columns {
        let outcome = column
            .measure(size)
            .await
            .with_context(|| format!("column {}", column.name()))?;
        eprintln!("{:>23}: {:6.2} s", column.name(), outcome.seconds);
        outcomes.push((column, outcome));
    }
    Ok(outcomes)
}

fn print(size: Size, outcomes: &[(Column, Outcome)]) {
    println!("\n{} sets of {} replicas", size.sets, size.replicas);
    println!(
        "| who | last pod gone | last claim gone | claims/s | writes to claims | most to one | set GETs | most of one | pod LISTs | set controller: writes to claims | all calls |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|---|");
    for (column, outcome) in outcomes {
        let calls = &outcome.calls;
        println!(
            "| {} | {:.2} s | {:.2} s | {:.0} | {} | {} | {} | {} | {} | {} | {} |",
            column.name(),
            outcome.pods,
            outcome.seconds,
            size.claims() as f64 / outcome.seconds,
            calls.claim_writes,
            calls.most_writes,
            calls.set_reads,
            calls.most_reads,
            calls.pod_lists,
            calls.controller_claim_writes,
            calls.controller,
        );
    }
}
