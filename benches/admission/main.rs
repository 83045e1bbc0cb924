//! The cost of admission: the webhook server alone compared with Go's controller-runtime, the
//! latency that admission adds to the creation of a claim, and Volume Warden's memory, calls and
//! CPU among many pods.
//!
//! `cargo bench --bench admission`, or only some parts: `cargo bench --bench admission -- wire
//! idle`. With `VOLUME_WARDEN_BENCH_SMALL=1` the sizes are small: this only tests the benchmark,
//! and the figures are not meaningful.
//!
//! After printing all tables, the benchmark fails if an aim was missed.

mod added;
mod aims;
mod certificate;
#[path = "../shared/each.rs"]
mod each;
mod idle;
mod load;
mod memory;
#[path = "../../tests/support/outsiders.rs"]
mod outsiders;
mod peer;
#[path = "../shared/protected.rs"]
mod protected;
#[path = "../shared/rest.rs"]
mod rest;
mod review;
mod scene;
mod siege;
mod size;
#[path = "../shared/stage.rs"]
mod stage;
mod switch;
#[path = "../shared/times.rs"]
mod times;
#[path = "../shared/turns.rs"]
mod turns;
mod wire;

use aims::Aims;
use anyhow::{Result, ensure};
use size::Size;
use std::process::ExitCode;
use turns::{Turn, arguments, in_turn};

/// A part of the benchmark, with its own table.
#[derive(Clone, Copy)]
enum Part {
    /// The webhook server alone.
    Wire,
    /// The latency that admission adds to the creation of a claim.
    Added,
    /// Resident memory for each pod.
    Memory,
    /// Calls and CPU while idle.
    Idle,
    /// Attacks by clients without the secret path.
    Outsiders,
}

const PARTS: [Part; 5] = [
    Part::Wire,
    Part::Added,
    Part::Memory,
    Part::Idle,
    Part::Outsiders,
];

impl Turn for Part {
    fn name(self) -> &'static str {
        match self {
            Self::Wire => "wire",
            Self::Added => "added",
            Self::Memory => "memory",
            Self::Idle => "idle",
            Self::Outsiders => "outsiders",
        }
    }
}

impl Part {
    async fn measure(self, size: Size) -> Result<Aims> {
        match self {
            Self::Wire => wire::measure(size).await,
            Self::Added => added::measure(size).await,
            Self::Memory => memory::measure(size).await,
            Self::Idle => idle::measure(size).await,
            Self::Outsiders => siege::measure(size).await,
        }
    }
}

#[tokio::main]
async fn main() -> Result<ExitCode> {
    let (sizes, names) = arguments();
    ensure!(sizes.is_empty(), "sizes cannot be set");
    let known = |name: &String| PARTS.iter().any(|part| part.name() == name);
    ensure!(names.iter().all(known), "unknown part");
    let size = Size::from_environment();
    let outcomes = in_turn(PARTS, &names, async |part: Part| part.measure(size).await).await?;
    println!("\n| part | aim | reached | |\n|---|---|---|---|");
    for (part, aims) in &outcomes {
        aims.print(part.name());
    }
    let missed = outcomes.iter().any(|(_, aims)| aims.missed());
    Ok(ExitCode::from(u8::from(size.judged && missed)))
}
