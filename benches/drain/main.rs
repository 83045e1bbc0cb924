//! How fast claims are deleted once their pods are deleted, compared with Kubernetes' own
//! controller and with the limit.
//!
//! N claims, each used by one pod, in one namespace. The drainer is stopped (SIGSTOP), all claims
//! are deleted, then their pods; the drainer is resumed, and the time until the last claim is
//! deleted is measured. The limit is a loader that reads nothing and only removes the finalizers,
//! with as many requests in flight as Volume Warden.
//!
//! `cargo bench --bench drain`, or with other sizes (claims, and other pods around) and only some
//! columns: `cargo bench --bench drain -- 500 500+5000 limit volume-warden`.

mod column;
#[path = "../shared/each.rs"]
mod each;
#[path = "../shared/follow.rs"]
mod follow;
#[path = "../shared/gone.rs"]
mod gone;
#[path = "../shared/leaving.rs"]
mod leaving;
#[path = "../shared/protected.rs"]
mod protected;
mod run;
#[path = "../shared/stage.rs"]
mod stage;
#[path = "../shared/turns.rs"]
mod turns;

use anyhow::{Context, Result};
use column::{Column, Outcome};
use turns::{Turn, arguments, in_turn};

/// The size of a run: the number of claims, and of pods that use none of them.
#[derive(Clone, Copy)]
struct Size {
    claims: usize,
    others: usize,
}

const DEFAULT: [Size; 3] = [
    Size {
        claims: 1000,
        others: 0,
    },
    Size {
        claims: 3000,
        others: 0,
    },
    Size {
        claims: 3000,
        others: 17_000,
    },
];

/// The limit is measured before and after, because the machine's speed drifts.
const COLUMNS: [Column; 8] = [
    Column::Limit,
    Column::LimitInstalled,
    Column::VolumeWarden,
    Column::InTreeUnlimited,
    Column::InTreeDefault,
    Column::VolumeWarden,
    Column::LimitInstalled,
    Column::Limit,
];

#[tokio::main]
async fn main() -> Result<()> {
    let (sizes, columns) = arguments();
    let sizes = sizes
        .iter()
        .map(|size| parse(size))
        .collect::<Result<Vec<_>>>()?;
    for size in if sizes.is_empty() {
        DEFAULT.to_vec()
    } else {
        sizes
    } {
        let outcomes = run(size, &columns).await?;
        print(size, &outcomes);
    }
    Ok(())
}

/// Parses a size such as `3000` or `3000+17000`.
fn parse(size: &str) -> Result<Size> {
    let (claims, others) = size.split_once('+').unwrap_or((size, "0"));
    let number = |text: &str| {
        text.parse()
            .with_context(|| format!("{size} is not CLAIMS or CLAIMS+OTHER_PODS"))
    };
    Ok(Size {
        claims: number(claims)?,
        others: number(others)?,
    })
}

/// Runs the columns in sequence, each on a new control plane.
async fn run(size: Size, columns: &[String]) -> Result<Vec<(Column, Outcome)>> {
    in_turn(COLUMNS, columns, async |column: Column| {
        let outcome = column.measure(size).await?;
        eprintln!("{:>17}: {:6.2} s", column.name(), outcome.seconds);
        Ok(outcome)
    })
    .await
}

fn print(size: Size, outcomes: &[(Column, Outcome)]) {
    let limit = mean(outcomes, Column::Limit);
    let limit_installed = mean(outcomes, Column::LimitInstalled);
    println!(
        "\n{} claims among {} pods",
        size.claims,
        size.claims + size.others
    );
    println!(
        "| drainer | seconds | claims/s | of the limit | of limit-installed | kube-apiserver | pod LISTs | writes | peak memory |"
    );
    println!("|---|---|---|---|---|---|---|---|---|");
    for (column, outcome) in outcomes {
        println!(
            "| {} | {:.2} | {:.0} | {} | {} | {:.2} s | {} | {} | {} |",
            column.name(),
            outcome.seconds,
            size.claims as f64 / outcome.seconds,
            share(limit, outcome),
            share(limit_installed, outcome),
            outcome.api_server,
            outcome.lists,
            outcome.writes,
            outcome.peak_memory.map_or("–".to_owned(), |bytes| format!(
                "{} MB",
                bytes / 1_000_000
            )),
        );
    }
}

/// The mean duration of the runs of a column in seconds, if there are any runs.
fn mean(outcomes: &[(Column, Outcome)], column: Column) -> Option<f64> {
    let runs = outcomes.iter().filter(|(each, _)| *each == column);
    let seconds: Vec<_> = runs.map(|(_, outcome)| outcome.seconds).collect();
    (!seconds.is_empty()).then(|| seconds.iter().sum::<f64>() / seconds.len() as f64)
}

/// The rate of the run, as a percentage of the rate of the limit.
fn share(limit: Option<f64>, outcome: &Outcome) -> String {
    limit.map_or("–".to_owned(), |limit| {
        format!("{:.0} %", 100.0 * limit / outcome.seconds)
    })
}
