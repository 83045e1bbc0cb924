//! How fast the claims of StatefulSets are deleted when the sets are scaled to 0 under
//! `whenScaled: Delete`, and the cost for the API server, compared with Kubernetes' own
//! controller.
//!
//! N sets of M replicas with a claim each, in one namespace. kube-controller-manager and Volume
//! Warden are stopped (SIGSTOP), all sets are scaled to 0, both are resumed, and the time until the
//! last claim is deleted is measured. kube-controller-manager deletes the pods in every column, so
//! Volume Warden is measured once with the default client limits of kube-controller-manager and
//! once without them.
//!
//! `cargo bench --bench retention`, or with other sizes (sets, and replicas of each) and only some
//! columns: `cargo bench --bench retention -- 10x5 volume-warden-unlimited in-tree-unlimited`.

mod calls;
mod column;
#[path = "../shared/each.rs"]
mod each;
#[path = "../shared/follow.rs"]
mod follow;
#[path = "../shared/gone.rs"]
mod gone;
mod load;
#[path = "../shared/stage.rs"]
mod stage;
#[path = "../shared/turns.rs"]
mod turns;

use anyhow::{Context, Result};
use column::{Column, Outcome};
use turns::{Turn, arguments, in_turn};

/// The size of a run: the number of sets, and of replicas of each set.
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

/// The first two columns are repeated at the end, because the machine's speed drifts.
const COLUMNS: [Column; 6] = [
    Column::VolumeWardenUnlimited,
    Column::InTreeUnlimited,
    Column::VolumeWardenDefault,
    Column::InTreeDefault,
    Column::InTreeUnlimited,
    Column::VolumeWardenUnlimited,
];

#[tokio::main]
async fn main() -> Result<()> {
    let (sizes, columns) = arguments();
    let mut sizes = sizes
        .iter()
        .map(|size| parse(size))
        .collect::<Result<Vec<_>>>()?;
    if sizes.is_empty() {
        sizes.push(DEFAULT);
    }
    for size in sizes {
        let outcomes = run(size, &columns).await?;
        print(size, &outcomes);
    }
    Ok(())
}

/// Parses a size such as `200x5`.
fn parse(size: &str) -> Result<Size> {
    let wrong = || format!("{size} is not SETSxREPLICAS");
    let (sets, replicas) = size.split_once('x').with_context(wrong)?;
    Ok(Size {
        sets: sets.parse().with_context(wrong)?,
        replicas: replicas.parse().with_context(wrong)?,
    })
}

/// Runs the columns in sequence, each on a new control plane.
async fn run(size: Size, columns: &[String]) -> Result<Vec<(Column, Outcome)>> {
    in_turn(COLUMNS, columns, async |column: Column| {
        let outcome = column.measure(size).await?;
        eprintln!("{:>23}: {:6.2} s", column.name(), outcome.seconds);
        Ok(outcome)
    })
    .await
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
