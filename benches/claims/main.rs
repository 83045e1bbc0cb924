//! Claims from pod annotations and released volumes: the latency added to the creation of a pod,
//! how fast the reconcilers create missed claims and release volumes, and whether other objects add
//! calls.
//!
//! `cargo bench --bench claims`, or only some parts: `cargo bench --bench claims -- births
//! releases`. With `VOLUME_WARDEN_BENCH_SMALL=1` the sizes are small: this only tests the
//! benchmark, and the figures are not meaningful.
//!
//! The benchmark fails if a claim was created too late, a call was made too often, or the
//! provisioning of an annotated pod's claim began too late. Other times are only printed.

mod births;
mod book;
mod calls;
mod consumers;
mod crowd;
mod drained;
#[path = "../shared/each.rs"]
mod each;
mod figures;
#[path = "../shared/follow.rs"]
mod follow;
#[path = "../shared/gone.rs"]
mod gone;
#[path = "../shared/leaving.rs"]
mod leaving;
mod pods;
#[path = "../shared/protected.rs"]
mod protected;
mod releases;
mod repairs;
mod scene;
mod size;
#[path = "../shared/stage.rs"]
mod stage;
#[path = "../shared/times.rs"]
mod times;
#[path = "../shared/turns.rs"]
mod turns;
mod unrelated;

use anyhow::{Result, ensure};
use size::Size;
use std::process::ExitCode;
use turns::{Turn, arguments, in_turn};

/// The missed limits of a part, as text.
type Missed = Vec<String>;

/// A part of the benchmark, with its own table.
#[derive(Clone, Copy)]
enum Part {
    /// The latency of the webhook, and whether claims exist in time.
    Births,
    /// The time until claims exist without the webhook.
    Repairs,
    /// The time until a volume can be provisioned.
    Consumers,
    /// The time until released volumes are Available.
    Releases,
    /// The cost of thousands of other objects.
    Unrelated,
    /// The latency of the webhook while the reconcilers are busy.
    Drained,
}

const PARTS: [Part; 6] = [
    Part::Births,
    Part::Repairs,
    Part::Consumers,
    Part::Releases,
    Part::Unrelated,
    Part::Drained,
];

/// Figures that were measured separately. This benchmark does not run plumber-cd.
const ORIGINAL: &str = "For comparison, plumber-cd v0.1.1 on another machine of this class: 300 annotated pods have their claims after 43 s (p50), \
                        the last after 87 s; 300 releases take 89 s.";

impl Turn for Part {
    fn name(self) -> &'static str {
        match self {
            Self::Births => "births",
            Self::Repairs => "repairs",
            Self::Consumers => "consumers",
            Self::Releases => "releases",
            Self::Unrelated => "unrelated",
            Self::Drained => "drained",
        }
    }
}

impl Part {
    async fn measure(self, size: Size) -> Result<Missed> {
        match self {
            Self::Births => births::measure(size).await,
            Self::Repairs => repairs::measure(size).await,
            Self::Consumers => consumers::measure(size).await,
            Self::Releases => releases::measure(size).await,
            Self::Unrelated => unrelated::measure(size).await,
            Self::Drained => drained::measure(size).await,
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
    println!("\n{ORIGINAL}");
    let missed: Vec<_> = outcomes
        .into_iter()
        .flat_map(|(part, missed)| {
            let said = move |what| format!("{}: {what}", part.name());
            missed.into_iter().map(said)
        })
        .collect();
    for what in &missed {
        eprintln!("MISSED {what}");
    }
    Ok(ExitCode::from(u8::from(!missed.is_empty())))
}
